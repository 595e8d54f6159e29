"""`Admin`: every administrative call, blocking. Each is one line over a function that runs on the loop."""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from ottla.client.admin import (
    brokers,
    configs,
    groups,
    quotas,
    security,
    shares,
    streams_groups,
    tokens,
    topics,
    transactions,
)
from ottla.client.blocking.engine import Engine
from ottla.client.core import offsets as offsets_api
from ottla.client.core.cluster import Broker, Cluster, Topic
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import Settings
from ottla.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.errors import OttlaError, ProtocolError
from ottla.security.acls import Acl, AclFilter, Operation

T = TypeVar("T")


class Admin:
    """`Admin({"bootstrap.servers": "127.0.0.1:9092"})`, or the same as keyword arguments with underscores."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **more: object) -> None:
        self.settings = Settings.parse(settings or {}, **more)
        self.cluster = Cluster(self.settings, LOOP)
        self._engine = Engine("admin")

    def close(self) -> None:
        if not (self._engine.is_closed or self._engine.is_forked):
            self._engine.run(self.cluster.close())
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- topics ------------------------------------------------------------------------------------

    def create_topics(
        self, new: Iterable[topics.NewTopic], *, validate_only: bool = False
    ) -> list[topics.CreatedTopic]:
        return self._run(topics.create(self.cluster, new, validate_only=validate_only))

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> topics.CreatedTopic:
        new = topics.NewTopic(name, partitions, replication_factor, configs or {})
        return self._run(topics.create_one(self.cluster, new))

    def delete_topics(self, names: Iterable[str] = (), *, ids: Iterable[bytes] = ()) -> None:
        return self._run(topics.delete(self.cluster, names, ids=ids))

    def list_topics(self, *, internal: bool = True) -> dict[str, Topic]:
        return self._run(topics.list_topics(self.cluster, internal=internal))

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return self._run(topics.describe(self.cluster, names))

    def authorized_operations(self, names: Iterable[str]) -> dict[str, frozenset[Operation]]:
        """What the client's user may do to each topic; nothing to one that is not there or that it may not see."""
        return self._run(topics.authorized_operations(self.cluster, names))

    def eligible_leaders(self, names: Iterable[str]) -> dict[TopicPartition, topics.EligibleLeaders]:
        """Which replicas outside of the ISR may still lead (KIP-966)."""
        return self._run(topics.eligible_leaders(self.cluster, names))

    def add_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        work = topics.add_partitions(
            self.cluster, topic, count, assignments=assignments, validate_only=validate_only
        )
        return self._run(work)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._run(topics.delete_records(self.cluster, before))

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, OttlaError | None]:
        return self._run(topics.elect_leaders(self.cluster, partitions, unclean=unclean))

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        return self._run(topics.reassign(self.cluster, targets))

    def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, topics.Reassignment]:
        return self._run(topics.reassignments(self.cluster, partitions))

    # -- offsets -----------------------------------------------------------------------------------

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed_only: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """By timestamp in ms, or -1 for the end, -2 for the beginning, -3 for the highest timestamp."""
        return self._run(offsets_api.list_offsets(self.cluster, wanted, committed_only=committed_only))

    def group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        work = offsets_api.committed(self.cluster, group, partitions, require_stable=require_stable)
        return self._run(work)

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        return self._run(groups.alter_offsets(self.cluster, group, offsets))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OttlaError | None]:
        return self._run(groups.delete_offsets(self.cluster, group, partitions))

    # -- groups ------------------------------------------------------------------------------------

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[groups.ListedGroup]:
        return self._run(groups.list_groups(self.cluster, states=states, types=types))

    def survey_groups(self) -> list[groups.Survey]:
        """All groups with their coordinators and commits, in a few requests to each broker."""
        return self._run(groups.survey(self.cluster))

    def describe_group(self, group: str) -> groups.Group:
        return self._run(groups.describe(self.cluster, group))

    def describe_share_group(self, group: str) -> shares.ShareGroup:
        return self._run(shares.describe(self.cluster, group))

    def describe_streams_group(self, group: str) -> streams_groups.StreamsGroup:
        return self._run(streams_groups.describe(self.cluster, group))

    def share_progress(self, group: str) -> Mapping[TopicPartition, shares.ShareProgress]:
        """How far a share group has got in each partition that it has a state of."""
        return self._run(shares.progress(self.cluster, group))

    def alter_share_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A share group without members begins again at these."""
        return self._run(shares.alter_offsets(self.cluster, group, offsets))

    def delete_share_offsets(self, group: str, topics: Iterable[str]) -> dict[str, ProtocolError | None]:
        return self._run(shares.delete_offsets(self.cluster, group, topics))

    def delete_group(self, group: str) -> None:
        return self._run(groups.delete(self.cluster, group))

    def remove_members(self, group: str, members: Iterable[groups.Member]) -> None:
        return self._run(groups.remove_members(self.cluster, group, members))

    # -- settings ----------------------------------------------------------------------------------

    def describe_configs(
        self, kind: str, name: str, *, keys: Iterable[str] | None = None, documentation: bool = False
    ) -> dict[str, configs.Config]:
        work = configs.describe(self.cluster, kind, name, keys=keys, documentation=documentation)
        return self._run(work)

    def list_config_resources(self, kind: str) -> list[str]:
        """Names of the topics, brokers, groups or client-metrics that have settings."""
        return self._run(configs.resources(self.cluster, kind))

    def alter_configs(
        self,
        kind: str,
        name: str,
        *,
        set_: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        work = configs.alter(
            self.cluster,
            kind,
            name,
            set_=set_,
            delete=delete,
            append=append,
            subtract=subtract,
            validate_only=validate_only,
        )
        return self._run(work)

    def find_coordinator(self, group: str) -> Broker:
        """The broker that coordinates a group."""
        return self._run(groups.coordinator(self.cluster, group))

    # -- the cluster -------------------------------------------------------------------------------

    def describe_cluster(self) -> brokers.ClusterInfo:
        return self._run(brokers.describe(self.cluster))

    def log_dirs(self) -> list[brokers.LogDir]:
        return self._run(brokers.log_dirs(self.cluster))

    def api_versions(self, broker: int | None = None) -> dict[str, tuple[int, int]]:
        return self._run(brokers.api_versions(self.cluster, broker))

    # -- transactions ------------------------------------------------------------------------------

    def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), longer_than_ms: int = -1
    ) -> list[transactions.ListedTransaction]:
        work = transactions.list_transactions(
            self.cluster, states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms
        )
        return self._run(work)

    def describe_transaction(self, transactional_id: str) -> transactions.Transaction:
        return self._run(transactions.describe(self.cluster, transactional_id))

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[transactions.ActiveProducer]]:
        return self._run(transactions.producers(self.cluster, partitions))

    def find_hanging_transactions(
        self, topics: Iterable[str] | None = None, *, older_than_ms: int | None = None
    ) -> list[transactions.Hanging]:
        limit_ms = transactions.MAX_TRANSACTION_TIMEOUT_MS if older_than_ms is None else older_than_ms
        return self._run(transactions.find_hanging(self.cluster, topics=topics, older_than_ms=limit_ms))

    def abort_transaction(self, partition: TopicPartition, start_offset: int) -> None:
        return self._run(transactions.abort(self.cluster, TopicPartition(*partition), start_offset))

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        work = transactions.end(
            self.cluster, transactional_id, producer_id, producer_epoch, committed=committed
        )
        return self._run(work)

    # -- rules and users ---------------------------------------------------------------------------

    def create_acls(self, acls: Sequence[Acl]) -> None:
        return self._run(security.create_acls(self.cluster, acls))

    def describe_acls(self, wanted: AclFilter) -> list[Acl]:
        return self._run(security.describe_acls(self.cluster, wanted))

    def delete_acls(self, filters: Sequence[AclFilter]) -> list[Acl]:
        """The rules that are gone."""
        return self._run(security.delete_acls(self.cluster, filters))

    def describe_users(self, names: Iterable[str] = ()) -> list[security.ScramUser]:
        """All SCRAM users, if none is named."""
        return self._run(security.describe_users(self.cluster, names))

    def set_user(
        self, name: str, password: str, mechanisms: Iterable[str], iterations: int = security.ITERATIONS
    ) -> None:
        """Adds a SCRAM user, or changes its password."""
        return self._run(security.set_user(self.cluster, name, password, mechanisms, iterations))

    def remove_user(self, name: str, mechanisms: Iterable[str]) -> None:
        return self._run(security.remove_user(self.cluster, name, mechanisms))

    def describe_quotas(self) -> list[quotas.Quota]:
        """Of all users and clients."""
        return self._run(quotas.describe(self.cluster))

    def alter_quotas(self, entity: quotas.Entity, values: Mapping[str, float | None]) -> None:
        """`alter_quotas({"user": "alice"}, {"producer_byte_rate": 1e6})`; None removes a quota."""
        return self._run(quotas.alter(self.cluster, entity, values))

    # -- delegation tokens -------------------------------------------------------------------------

    def create_token(
        self, renewers: Iterable[str] = (), *, lifetime_ms: int | None = None, owner: str | None = None
    ) -> tokens.Token:
        """For the user that is logged in, or for `owner` ("User:bob"). Its `id` and `secret` let somebody log in."""
        return self._run(tokens.create(self.cluster, renewers, lifetime_ms, owner))

    def describe_tokens(self, owners: Iterable[str] | None = None) -> list[tokens.Token]:
        """Those that the user may see."""
        return self._run(tokens.describe(self.cluster, owners))

    def renew_token(self, secret: bytes, period_ms: int | None = None) -> int:
        """Until when it is good now, in milliseconds."""
        return self._run(tokens.renew(self.cluster, secret, period_ms))

    def expire_token(self, secret: bytes, period_ms: int | None = None) -> int:
        """At once, or after the period."""
        return self._run(tokens.expire(self.cluster, secret, period_ms))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._engine.run(work)
