"""`ottla.aio.Admin`: every method of `ottla.Admin`, awaited."""

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ottla.aio.whole import whole
from ottla.client.admin import facade
from ottla.client.core.cluster import Cluster
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[facade.Admin, P], T],
) -> "Callable[Concatenate[Admin, P], Coroutine[Any, Any, T]]":
    """The method as a coroutine function, with its parameters, its result and its documentation."""

    @wraps(method)
    async def call(self: "Admin", /, *arguments: P.args, **named: P.kwargs) -> T:
        return await whole(cast("Coroutine[Any, Any, T]", method(self._inner, *arguments, **named)))

    return call


class Admin:
    """As `ottla.Admin`: every method of it, awaited."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **more: object) -> None:
        self._inner = _Coroutines(Settings.parse(settings or {}, **more))

    async def close(self) -> None:
        await self._inner.cluster.close()

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Topics
    create_topics = _awaited(facade.Admin.create_topics)
    create_topic = _awaited(facade.Admin.create_topic)
    delete_topics = _awaited(facade.Admin.delete_topics)
    list_topics = _awaited(facade.Admin.list_topics)
    describe_topics = _awaited(facade.Admin.describe_topics)
    authorized_operations = _awaited(facade.Admin.authorized_operations)
    eligible_leaders = _awaited(facade.Admin.eligible_leaders)
    add_partitions = _awaited(facade.Admin.add_partitions)
    delete_records = _awaited(facade.Admin.delete_records)
    elect_leaders = _awaited(facade.Admin.elect_leaders)
    reassign = _awaited(facade.Admin.reassign)
    reassignments = _awaited(facade.Admin.reassignments)

    # Offsets
    list_offsets = _awaited(facade.Admin.list_offsets)
    group_offsets = _awaited(facade.Admin.group_offsets)
    alter_group_offsets = _awaited(facade.Admin.alter_group_offsets)
    delete_group_offsets = _awaited(facade.Admin.delete_group_offsets)

    # Groups
    list_groups = _awaited(facade.Admin.list_groups)
    survey_groups = _awaited(facade.Admin.survey_groups)
    describe_group = _awaited(facade.Admin.describe_group)
    describe_share_group = _awaited(facade.Admin.describe_share_group)
    describe_streams_group = _awaited(facade.Admin.describe_streams_group)
    share_progress = _awaited(facade.Admin.share_progress)
    alter_share_offsets = _awaited(facade.Admin.alter_share_offsets)
    delete_share_offsets = _awaited(facade.Admin.delete_share_offsets)
    delete_group = _awaited(facade.Admin.delete_group)
    remove_members = _awaited(facade.Admin.remove_members)

    # Settings
    describe_configs = _awaited(facade.Admin.describe_configs)
    list_config_resources = _awaited(facade.Admin.list_config_resources)
    alter_configs = _awaited(facade.Admin.alter_configs)
    find_coordinator = _awaited(facade.Admin.find_coordinator)

    # The cluster
    describe_cluster = _awaited(facade.Admin.describe_cluster)
    log_dirs = _awaited(facade.Admin.log_dirs)
    api_versions = _awaited(facade.Admin.api_versions)

    # Transactions
    list_transactions = _awaited(facade.Admin.list_transactions)
    describe_transaction = _awaited(facade.Admin.describe_transaction)
    describe_producers = _awaited(facade.Admin.describe_producers)
    find_hanging_transactions = _awaited(facade.Admin.find_hanging_transactions)
    abort_transaction = _awaited(facade.Admin.abort_transaction)
    end_transaction = _awaited(facade.Admin.end_transaction)

    # Rules and users
    create_acls = _awaited(facade.Admin.create_acls)
    describe_acls = _awaited(facade.Admin.describe_acls)
    delete_acls = _awaited(facade.Admin.delete_acls)
    describe_users = _awaited(facade.Admin.describe_users)
    set_user = _awaited(facade.Admin.set_user)
    remove_user = _awaited(facade.Admin.remove_user)
    describe_quotas = _awaited(facade.Admin.describe_quotas)
    alter_quotas = _awaited(facade.Admin.alter_quotas)

    # Delegation tokens
    create_token = _awaited(facade.Admin.create_token)
    describe_tokens = _awaited(facade.Admin.describe_tokens)
    renew_token = _awaited(facade.Admin.renew_token)
    expire_token = _awaited(facade.Admin.expire_token)


class _Coroutines(facade.Admin):
    """Its methods return the coroutines that the blocking one would run."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, LOOP)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return cast("T", work)
