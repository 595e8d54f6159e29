"""Several brokers in a test: real ports, real replication, no ZooKeeper; and all that may happen to them."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla import errors
from ottla.metadata.image import Image, Partition
from ottla.server.node import Node
from ottla.testing import moves, sending
from ottla.testing.broker import Duration, milliseconds
from ottla.testing.ensemble import Ensemble
from ottla.testing.inspect import Group, TopicPartition, TopicRecord, lag_here
from ottla.testing.links import Links
from ottla.testing.member import Member
from ottla.testing.settings import texts_of
from ottla.testing.topics import create_topic, delete_topic
from ottla.testing.waiting import News
from ottla.testing.waits import Waits

T = TypeVar("T")

SESSION_TIMEOUT_MS = 6000  # of the brokers' sessions with the ensemble


class Cluster(Waits):
    """`with Cluster(brokers=3) as cluster:` and clients connect to `cluster.bootstrap`.

    Brokers are numbered from 1: `cluster[1]`, `cluster.leader("orders")` and `cluster.controller` are Brokers with
    all their faults. Settings are Kafka's and go to every broker; topics have three replicas unless
    told otherwise. `security`, `users` and `authorizer` are those of a Broker, and brokers talk to each other
    the same way. Everything is in memory.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        brokers: int = 3,
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        authorizer: bool = False,
        **more: Any,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        self._security = {"security": security, "users": users, "authorizer": authorizer}
        self._users = dict(users or {})
        self._count = brokers
        self._settings = _defaults(brokers) | texts_of(settings or {}) | texts_of(more)
        self._links, self._news = Links(), News()
        self._members: dict[int, Member] = {}
        self._ensemble: Ensemble | None = None

    # -- life --------------------------------------------------------------------------------------------

    def start(self) -> Self:
        if self._members:
            raise RuntimeError("the cluster runs already")
        self._ensemble = Ensemble(SESSION_TIMEOUT_MS)
        self._members = {
            number: Member(number, self._ensemble, self._links, self._news, self._settings, **self._security)
            for number in range(1, self._count + 1)
        }
        try:
            with ThreadPoolExecutor(self._count) as threads:
                list(threads.map(Member.start, self._members.values()))
            self.wait_until(self._is_complete, 30, "all brokers to know each other")
            for name, password in self._users.items():
                self.controller.add_user(name, password)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Nothing is left of it: no thread, no socket, no task."""
        members, self._members = self._members, {}
        ensemble, self._ensemble = self._ensemble, None
        for member in members.values():
            member.resume()
            member.stop()
        if ensemble is not None:
            ensemble.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every broker, for `bootstrap.servers`."""
        return ",".join(member.bootstrap for member in self)

    def __repr__(self) -> str:
        return f"<ottla.testing.Cluster of {self._count}: {self.bootstrap or 'not started'}>"

    def client_settings(self, user: str | None = None, **how: Any) -> dict[str, str]:
        """What a client has to set to get in; see `Broker.client_settings`."""
        first = next(iter(self))
        return first.client_settings(user, **how) | {"bootstrap.servers": self.bootstrap}

    # -- brokers -----------------------------------------------------------------------------------------

    def __getitem__(self, broker_id: int) -> Member:
        member = self._members.get(broker_id)
        if member is None:
            raise KeyError(f"there is no broker {broker_id}; there are {sorted(self._members)}")
        return member

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    @property
    def controller(self) -> Member:
        """The broker that decides on leaders and topics; waits for one while there is none."""

        def active() -> Member | None:
            # A controller that was cut off may not know yet that another one was elected under a later epoch.
            controllers = {member: _node(member).broker.controller for member in self._serving()}
            return max(
                (member for member, controller in controllers.items() if controller.is_active),
                key=lambda member: controllers[member].lease_epoch,
                default=None,
            )

        return self._wait(active, 10, "a controller")

    def leader(self, topic: str, partition: int = 0) -> Member:
        """The broker that leads the partition; waits for one while there is none."""

        def leading() -> Member | None:
            member = self._members.get(self._state(topic, partition).leader)
            return member if member in self._serving() and _leads(member, topic, partition) else None

        return self._wait(leading, 10, f"a leader of {topic}-{partition}")

    def followers(self, topic: str, partition: int = 0) -> list[Member]:
        state = self._state(topic, partition)
        return [self[replica] for replica in state.replicas if replica != state.leader]

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The brokers whose replicas are in sync, as the metadata says."""
        return self._state(topic, partition).isr

    # -- topics and records ------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        configs: Mapping[str, Any] | None = None,
        *,
        replication_factor: int | None = None,
        **more: Any,
    ) -> str:
        """The topic's name, once every broker knows it and every partition is led."""
        texts = texts_of({**(configs or {}), **more})
        controller = self.controller
        controller._ask(create_topic(_node(controller).broker, name, partitions, texts, replication_factor))
        self.wait_until(lambda: self._is_led(name), what=f"leaders of {name}")
        return name

    def delete_topic(self, name: str) -> None:
        controller = self.controller
        controller._ask(delete_topic(_node(controller).broker, name))

    def topics(self) -> dict[str, int]:
        """Partitions by topic; the brokers' own topics are not among them."""
        return self.controller.topics()

    def send(
        self,
        topic: str,
        value: sending.Text,
        key: sending.Text = None,
        *,
        partition: int | None = None,
        **how: Any,
    ) -> TopicRecord:
        """Writes one record through the partition's leader, acknowledged by all in sync; see `Broker.send`."""
        controller = self.controller
        count = controller._ask(sending.ensure_topic(_node(controller).broker, topic))
        index = sending.partition_for(key, count) if partition is None else partition
        return self.leader(topic, index).send(topic, value, key, partition=index, **how)

    def records(self, topic: str, partition: int | None = None, **how: Any) -> list[TopicRecord]:
        """Of the leaders, partition by partition; none while there is no such topic. See `Broker.records`."""
        count = self.topics().get(topic, 0) if topic[:2] != "__" else self._partitions(topic)
        indexes = range(count) if partition is None else [partition]
        return [
            record
            for index in (indexes if count else ())
            for record in self.leader(topic, index).records(topic, index, **how)
        ]

    def groups(self) -> dict[str, Group]:
        """Of all coordinators."""
        groups: dict[str, Group] = {}
        for member in self._serving():
            for name, group in member.groups().items():
                assigned = set(group.assigned) | set(group.offsets)
                lags = {place: self._lag(place, group.offsets.get(place)) for place in sorted(assigned)}
                groups[name] = replace(
                    group, lags={place: lag for place, lag in lags.items() if lag is not None}
                )
        return groups

    def group(self, name: str) -> Group:
        group = self.groups().get(name)
        if group is None:
            raise errors.GroupIdNotFound(f"there is no group {name}")
        return group

    # -- faults ------------------------------------------------------------------------------------------

    def kill(self, broker_id: int, *, lose_unsynced: bool = False) -> None:
        """As `kill -9`, or a power cut: others lead as soon as its port is found to refuse."""
        self[broker_id].crash(lose_unsynced=lose_unsynced)

    def shut_down(self, broker_id: int) -> None:
        """Cleanly: its leaders move away first."""
        self[broker_id].shut_down()

    def restart(self, broker_id: int) -> None:
        """On its port, with what is on its disk."""
        self[broker_id].restart()

    def pause(self, broker_id: int) -> None:
        """As SIGSTOP: silent until `resume`; others lead when its session is over (`advance` hastens that)."""
        self[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        self[broker_id].resume()

    def cut(self, one: int, other: int) -> None:
        """The two brokers cannot reach each other, until `restore` or `heal`; clients reach both."""
        self._links.cut(self[one].broker_id, self[other].broker_id)
        for broker_id in (one, other):
            self[broker_id].drop_cut_links()

    def isolate(self, broker_id: int) -> None:
        """Cut off from the other brokers and from the metadata log; clients still reach it."""
        self[broker_id].leave_ensemble()
        for member in self:
            if member.broker_id != broker_id:
                self.cut(broker_id, member.broker_id)

    def restore(self, one: int, other: int | None = None) -> None:
        """The link between the two, or all of one broker's."""
        self._links.restore(one, other)
        if other is None:
            self[one].find_ensemble()

    def heal(self) -> None:
        """Links, disks and ordered faults are whole again, paused brokers go on. The dead stay dead."""
        self._links.restore()
        for member in self:
            member.resume()
            member.find_ensemble()
            member.heal()

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> Member:
        """Another broker of the ISR leads, or `to`. The new leader."""
        state = self._state(topic, partition)
        able = [replica for replica in state.isr if replica != state.leader and self[replica].is_running]
        if to is not None and to not in able:
            raise ValueError(
                f"broker {to} cannot take over {topic}-{partition}: its ISR is {list(state.isr)}"
            )
        if not able:
            raise ValueError(f"nobody but broker {state.leader} is in the ISR of {topic}-{partition}")
        heir = self[able[0] if to is None else to]
        controller = self.controller
        controller._ask(moves.set_leader(_node(controller).broker, topic, partition, heir.broker_id))
        self.wait_until(lambda: _leads(heir, topic, partition), what=f"broker {heir.broker_id} to lead")
        return heir

    def shrink_isr(self, topic: str, partition: int = 0, *, to: int = 1) -> tuple[int, ...]:
        """Only the leader and `to - 1` followers stay in sync: the links of the others to the leader are cut,
        until `heal`. The ISR. Other partitions of those brokers are affected as by any cut link."""
        leader = self.leader(topic, partition).broker_id
        isr = self.isr(topic, partition)
        if not 1 <= to <= len(isr):
            raise ValueError(f"the ISR of {topic}-{partition} is {list(isr)}: it cannot shrink to {to}")
        kept = (leader, *[replica for replica in isr if replica != leader][: to - 1])
        for broker_id in set(isr) - set(kept):
            self.cut(leader, broker_id)
        controller = self.controller
        controller._ask(moves.set_isr(_node(controller).broker, topic, partition, kept))
        self.wait_until(lambda: set(self.isr(topic, partition)) == set(kept), what="the ISR to shrink")
        return kept

    def wait_for_isr(
        self, topic: str, partition: int = 0, *, size: int | None = None, timeout: float = 10
    ) -> None:
        """Until so many replicas are in sync; all of them unless told."""

        def in_sync() -> bool:
            state = self._state(topic, partition)
            return len(state.isr) == (len(state.replicas) if size is None else size)

        self.wait_until(in_sync, timeout, f"the ISR of {topic}-{partition}")

    # -- time --------------------------------------------------------------------------------------------

    def advance(self, by: Duration = 0, **more: float) -> None:
        """Time jumps for all brokers and for their sessions, as in `Broker.advance`."""
        jump_ms = milliseconds(by) + milliseconds(timedelta(**more))
        if jump_ms < 0:
            raise ValueError("time does not go back")
        if self._ensemble is not None:
            self._ensemble.advance(jump_ms)
        for member in self:
            member.advance(jump_ms)

    # -- inside ------------------------------------------------------------------------------------------

    def report(self, last: int = 20) -> str:
        """The last requests of every broker."""
        return "\n".join(f"broker {member.broker_id}:\n{member.report(last)}" for member in self)

    def _serving(self) -> list[Member]:
        return [member for member in self if member.is_running and not member.is_paused]

    def _look(self, question: Callable[[Image], T]) -> T:
        """At the metadata as the controller has it."""
        controller = self.controller
        return controller._call(lambda: question(_node(controller).broker.image))

    def _state(self, topic: str, partition: int) -> Partition:
        state = self._look(lambda image: image.partition(topic, partition))
        if state is None:
            raise errors.UnknownTopicOrPartition(f"there is no {topic}-{partition}")
        return state

    def _partitions(self, topic: str) -> int:
        known = self._look(lambda image: image.topics.get(topic))
        return 0 if known is None else len(known.partitions)

    def _is_complete(self) -> bool:
        return all(_brokers_known(member) == self._count for member in self)

    def _is_led(self, topic: str) -> bool:
        count = self._partitions(topic)
        members = self._serving()
        known_by_all = all(topic in _node(member).broker.image.topics for member in members)
        return (
            count > 0
            and known_by_all
            and all(any(_leads(member, topic, index) for member in members) for index in range(count))
        )

    def _lag(self, partition: TopicPartition, committed: int | None) -> int | None:
        leader = self.leader(*partition)
        return leader._call(lambda: lag_here(_node(leader).broker, partition, committed))


def _node(member: Member) -> Node:
    return member._running()


def _brokers_known(member: Member) -> int:
    """How many brokers may lead, as far as this one has heard."""
    image = _node(member).broker.image
    return member._call(lambda: sum(broker.may_lead for broker in image.brokers.values()))


def _leads(member: Member, topic: str, partition: int) -> bool:
    replica = _node(member).broker.replicas.partitions.get((topic, partition))
    return replica is not None and replica.is_leader


def _defaults(brokers: int) -> dict[str, str]:
    """Three replicas of everything, two of them in sync for coordinators; fewer where there are fewer brokers."""
    replicas, least = str(min(3, brokers)), str(min(2, brokers))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": least,
    }
