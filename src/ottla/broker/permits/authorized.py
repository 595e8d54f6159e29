"""What a client may do, as bit sets of the protocol's operations. Without an authorizer: everything."""

from collections.abc import Sequence

from ottla.broker.requests.context import Context
from ottla.security.operations import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    WRITE,
)

NOT_ASKED = -(2**31)


_OF_TOPICS = (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
_OF_GROUPS = (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
_OF_CLUSTERS = (
    CREATE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
)


def topic_operations(name: str, context: Context) -> int:
    return _allowed(_OF_TOPICS, TOPIC, name, context)


def group_operations(name: str, context: Context) -> int:
    return _allowed(_OF_GROUPS, GROUP, name, context)


def cluster_operations(context: Context) -> int:
    """Nothing for those who may not describe the cluster."""
    if not context.allows(DESCRIBE, CLUSTER, CLUSTER_NAME):
        return 0
    return _allowed(_OF_CLUSTERS, CLUSTER, CLUSTER_NAME, context)


def _allowed(operations: Sequence[int], resource_type: int, name: str, context: Context) -> int:
    return sum(1 << operation for operation in operations if context.allows(operation, resource_type, name))
