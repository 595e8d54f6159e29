"""A real broker on a real port, in a background thread of the test, and all that a test may do to it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from ottla import errors
from ottla.errors import ProtocolError
from ottla.storage.memory import MemoryDisk
from ottla.testing import inspect, moves, sending
from ottla.testing.faults import Fault
from ottla.testing.inspect import Deserializer, Group, TopicRecord
from ottla.testing.life import STARTED as STARTED
from ottla.testing.life import Host
from ottla.testing.names import api_key, error_of
from ottla.testing.seen import SeenRequest
from ottla.testing.settings import texts_of
from ottla.testing.topics import create_topic, delete_topic
from ottla.testing.waits import Waits

if TYPE_CHECKING:
    from ottla.testing.registry import BrokerRegistry

Duration = timedelta | float  # a plain number is milliseconds
ErrorLike = str | int | ProtocolError | type[ProtocolError]


class Broker(Waits, Host):
    """`with Broker() as broker:` and clients connect to `broker.bootstrap`.

    In memory, unless `data` names a folder. Settings are Kafka's, as a mapping or as keywords with
    underscores: `Broker(num_partitions=3)`. Everything here may be called from any thread but the broker's.

    `security` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; `users` are names and passwords, for PLAIN and SCRAM;
    with `authorizer=True` nobody but the user `admin` may do anything until `allow`.

    With `registry=True` a schema registry comes with it: `broker.registry` is its address.
    """

    _registry: "BrokerRegistry | None" = None

    def start(self) -> Self:
        super().start()
        if self._wants_registry:
            from ottla.testing.registry import BrokerRegistry

            try:
                self._registry = BrokerRegistry(self.client_settings())
            except BaseException:
                self.stop()
                raise
        return self

    def stop(self) -> None:
        if self._registry is not None:
            self._registry.stop()
            self._registry = None
        super().stop()

    @property
    def registry(self) -> str:
        """The address of the schema registry."""
        if self._registry is None:
            raise RuntimeError("there is no schema registry: start the broker with Broker(registry=True)")
        return self._registry.address

    # -- topics ------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, Any] | None = None, **more: Any
    ) -> str:
        """The topic's name. `configs` are Kafka's; as keywords with underscores: `retention_ms=1000`."""
        texts = texts_of({**(configs or {}), **more})
        self._ask(create_topic(self._running().broker, name, partitions, texts))
        return name

    def delete_topic(self, name: str) -> None:
        self._ask(delete_topic(self._running().broker, name))

    def send(
        self,
        topic: str,
        value: sending.Text,
        key: sending.Text = None,
        *,
        partition: int | None = None,
        headers: sending.Headers = (),
        timestamp_ms: int | None = None,
    ) -> TopicRecord:
        """Writes one record, without a client. The topic is created if it is missing, as clients create it.

        Keys choose the partition as Kafka's default partitioner does; without a key it is partition 0.
        """
        count = self._ask(sending.ensure_topic(self._running().broker, topic))
        index = sending.partition_for(key, count) if partition is None else partition
        now_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        return self._ask(sending.send(self._running().broker, topic, index, key, value, headers, now_ms))

    # -- who may do what ---------------------------------------------------------------------------------

    def client_settings(
        self, user: str | None = None, *, mechanism: str = "SCRAM-SHA-512", certificate: str | None = None
    ) -> dict[str, str]:
        """What a client has to set to get in, with `bootstrap.servers`: for confluent-kafka and Ottla's own.

        `user` is one of `users` (the first if none is named); `certificate` is the name that a client
        certificate of its own has.
        """
        from ottla.testing.security import authority, client_settings

        name = user if user is not None else next(iter(self._users), None)
        identity = authority().issue(certificate) if certificate is not None else None
        password = self._users.get(name or "")
        settings = client_settings(self._security, name, password, mechanism, identity)
        return {"bootstrap.servers": self.bootstrap, **settings}

    def add_user(self, name: str, password: str) -> None:
        """For SCRAM; PLAIN knows the users that the broker was made with."""
        from ottla.testing.rights import set_users

        self._users[name] = password
        self._ask(set_users(self._running().broker, {name: password}))

    def remove_user(self, name: str) -> None:
        """From SCRAM: it cannot log in again. Connections that it has stay until their session ends."""
        from ottla.testing.rights import remove_user

        self._ask(remove_user(self._running().broker, name))

    def allow(
        self,
        principal: str,
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        prefix: bool = False,
        host: str = "*",
        remove: bool = False,
    ) -> None:
        """`allow("alice", "READ", "WRITE", topic="orders")`; without a resource it is a right on the cluster.

        With `prefix` the names are beginnings of names; with `remove` the rules are taken away.
        """
        self._rule(True, principal, operations, topic, group, transactional_id, prefix, host, remove)

    def deny(
        self,
        principal: str,
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        prefix: bool = False,
        host: str = "*",
        remove: bool = False,
    ) -> None:
        """As `allow`; a rule that denies goes before all that allow."""
        self._rule(False, principal, operations, topic, group, transactional_id, prefix, host, remove)

    # -- time --------------------------------------------------------------------------------------------

    def advance(self, by: Duration = 0, **more: float) -> None:
        """Time jumps: `advance(1500)` milliseconds, `advance(timedelta(days=8))`, `advance(days=8)`.

        What is due by then happens before it returns: time-outs, expiry, retention, compaction.
        """
        jump_ms = milliseconds(by) + milliseconds(timedelta(**more))
        if jump_ms < 0:
            raise ValueError("time does not go back")
        self._jump(jump_ms)

    # -- faults ------------------------------------------------------------------------------------------

    def fail(
        self,
        api: str,
        error: ErrorLike,
        *,
        times: int | None = 1,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        after_effect: bool = False,
    ) -> Fault:
        """The next requests of the API (of that client, topic, partition) are answered with the error.

        With `after_effect` they are carried out first: what a client must not do twice, it now does twice.
        """
        fault = Fault(
            api_key(api), error_of(error), 0, False, after_effect, times, client_id, topic, partition
        )
        return self._order(fault)

    def delay(
        self,
        api: str,
        by: Duration,
        *,
        times: int | None = 1,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        after_effect: bool = False,
    ) -> Fault:
        """The next requests wait before they are carried out, or their answers before they leave."""
        fault = Fault(
            api_key(api), None, milliseconds(by), False, after_effect, times, client_id, topic, partition
        )
        return self._order(fault)

    def disconnect(
        self,
        api: str,
        *,
        times: int | None = 1,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        after_effect: bool = False,
    ) -> Fault:
        """The connection closes in the place of an answer: the client cannot know what took effect."""
        fault = Fault(api_key(api), None, 0, True, after_effect, times, client_id, topic, partition)
        return self._order(fault)

    def heal(self) -> None:
        """All faults are over: those ordered, and those of the disk."""
        self._call(self._faults.clear)
        self._slow_s = 0.0
        if self._disk is not None:
            self._disk.clear_faults()
            self._disk.capacity_bytes = None

    def slow_disk(self, by: Duration) -> None:
        """Syncing takes this much longer, and so does every acknowledgement of a produce; until `heal`."""
        self.delay("Produce", by, times=None, after_effect=True)
        self._slow_s = milliseconds(by) / 1000

    def fill_disk(self, free_bytes: int = 0) -> None:
        """No more room than this; until `heal`."""
        disk = self._memory()
        self._call(lambda: setattr(disk, "capacity_bytes", disk.used_bytes + free_bytes))

    def break_disk(self, operation: str = "append", *, path_part: str = "", times: int | None = None) -> None:
        """A method of the disk (append, read, sync, open, ...) fails with EIO; until `heal`."""
        disk = self._memory()
        self._call(lambda: disk.fail(operation, path_part=path_part, times=times))

    def move_leader(self, topic: str, partition: int = 0, *, away: Duration = 0) -> None:
        """The partition loses its leader and gets it back, under a new epoch, after `away`."""
        self._ask(moves.move_leader(self._running().broker, topic, partition, milliseconds(away)))

    def move_coordinator(
        self, *, group: str | None = None, transactional_id: str | None = None, away: Duration = 0
    ) -> None:
        """The coordinator of a group, or of a transactional id, moves: the next one replays its log."""
        if (group is None) == (transactional_id is None):
            raise ValueError("name a group or a transactional id")
        broker = self._running().broker
        if group is not None:
            topic, index = self._call(lambda: moves.shard_of_group(broker, group))
        else:
            topic, index = self._call(lambda: moves.shard_of_transactions(broker, transactional_id or ""))
        self.move_leader(topic, index, away=away)

    def fence(self, transactional_id: str) -> None:
        """Another producer takes over the transactional id: the one that has it is fenced."""
        self._ask(moves.fence(self._running().broker, transactional_id))

    # -- looking inside ----------------------------------------------------------------------------------

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        committed: bool = True,
        key: Deserializer | None = None,
        value: Deserializer | None = None,
    ) -> list[TopicRecord]:
        """Partition by partition; none while there is no such topic. `value=json.loads` and the like turn
        bytes into values."""
        broker = self._running().broker
        return self._call(
            lambda: inspect.topic_records(broker, topic, partition, committed=committed, key=key, value=value)
        )

    def groups(self) -> dict[str, Group]:
        return self._ask(inspect.all_groups(self._running().broker))

    def group(self, name: str) -> Group:
        group = self.groups().get(name)
        if group is None:
            raise errors.GroupIdNotFound(f"there is no group {name}")
        return group

    def topics(self) -> dict[str, int]:
        """Partitions by topic; the broker's own topics are not among them."""
        image = self._running().broker.image
        return self._call(
            lambda: {name: len(topic.partitions) for name, topic in image.topics.items() if name[:2] != "__"}
        )

    def transactions(self) -> dict[str, str]:
        """The state of each transactional id: Empty, Ongoing, PrepareCommit, CompleteAbort, ..."""
        return self._ask(inspect.all_transactions(self._running().broker))

    @property
    def connections(self) -> int:
        """Of clients, right now."""
        return sum(len(listener.connections) for listener in self._running().listeners)

    def requests(
        self, api: str | None = None, *, client_id: str | None = None, topic: str | None = None
    ) -> list[SeenRequest]:
        """The last requests (a thousand at most), oldest first."""
        if api is not None:
            api_key(api)
        return [
            request
            for request in list(self._seen.requests)
            if (api is None or request.api == api)
            and (client_id is None or request.client_id == client_id)
            and (topic is None or any(name == topic for name, _ in request.topics))
        ]

    def report(self, last: int = 20) -> str:
        """The last requests, one a line."""
        return self._seen.report(last)

    # -- waiting -----------------------------------------------------------------------------------------

    def wait_for_request(
        self, api: str, *, client_id: str | None = None, topic: str | None = None, timeout: float = 10
    ) -> SeenRequest:
        """Until such a request comes, counted from now."""
        before = self._seen.count

        def came() -> SeenRequest | None:
            requests = self.requests(api, client_id=client_id, topic=topic)
            return next((request for request in requests if request.number > before), None)

        request = self.wait_until(came, timeout, f"a request {api}")
        assert request is not None
        return request

    # -- inside ------------------------------------------------------------------------------------------

    def _rule(
        self,
        allowed: bool,
        principal: str,
        operations: tuple[str, ...],
        topic: str | None,
        group: str | None,
        transactional_id: str | None,
        prefix: bool,
        host: str,
        remove: bool,
    ) -> None:
        from ottla.security.acls import Permission
        from ottla.testing.rights import change_rules, rules_of

        permission = Permission.ALLOW if allowed else Permission.DENY
        acls = rules_of(principal, operations, permission, topic, group, transactional_id, prefix, host)
        self._ask(change_rules(self._running().broker, acls, remove=remove))

    def _jump(self, jump_ms: int) -> None:
        self._skew_ms += jump_ms
        self._run(self._advance(jump_ms))

    def _order(self, fault: Fault) -> Fault:
        fault.on_cancel = lambda cancelled: self._call(lambda: self._faults.remove(cancelled))
        self._call(lambda: self._faults.add(fault))
        return fault

    def _memory(self) -> MemoryDisk:
        if self._disk is None:
            raise ValueError("only the disk of a broker in memory can be filled or broken")
        return self._disk


def milliseconds(duration: Duration) -> int:
    return round(duration.total_seconds() * 1000 if isinstance(duration, timedelta) else duration)
