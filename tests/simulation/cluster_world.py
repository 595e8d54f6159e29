"""Three brokers in a simulated world: the real controllers, leaders and followers; simulated network, clocks,
disks, and an ensemble that keeps ZooKeeper's promises. Everything follows from the seed."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ottla.broker.broker import Broker
from ottla.broker.fetching.sessions import FetchSessions
from ottla.broker.metrics import Metrics
from ottla.broker.partitions.flushing import Flushing
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.requests.client import Client
from ottla.broker.routes import ROUTES
from ottla.broker.stepping import HeavyWork
from ottla.broker.waits import Running
from ottla.config.settings import Config
from ottla.errors import NetworkException
from ottla.metadata import leadership, membership
from ottla.metadata.controller import Controller
from ottla.metadata.decision import Decision
from ottla.metadata.image import changed
from ottla.metadata.records import ClusterCreated, Endpoint
from ottla.metadata.shared import Shared
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.memory import MemoryDisk
from ottla.testing.world.process import SimulatedJobs
from ottla.testing.world.simulation import Simulation
from ottla.testing.world.time import ProcessClock
from ottla.wire import batch as batches
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record

BROKERS = (1, 2, 3)
SESSION_MS = 3000
STORM_MS = 8000
PARTITIONS = 2
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "300",
    "replica.fetch.max.bytes": "600",
    "replica.socket.timeout.ms": "2000",
    "controller.socket.timeout.ms": "2000",
    "ottla.metadata.snapshot.entries": "50",
}


@dataclass
class Held:
    """A message on its way until its receiver has seen so many changes of leaders."""

    receiver_id: int
    terms: list[int] | None
    changes: int
    latest_ms: float
    arrive: Callable[[], None]


class Call:
    def __init__(self):
        self.cancelled = False
        self.running = None

    def cancel(self):
        self.cancelled = True


class Member:
    """A broker process, from its start to its end."""

    def __init__(self, world, broker_id):
        self.world, self.broker_id, self.random = world, broker_id, world.random
        self.number = next(world.numbers)
        self.disk = world.disks[broker_id]
        self.clock = ProcessClock(world.time)
        self.jobs = SimulatedJobs(self.clock, self.random)
        self.log = world.shared.session()
        self.config = Config(SETTINGS | {"node.id": str(broker_id)})
        self.folder = LogFolder(self.disk, "disk", files=FileCache(), report=lambda line: None)
        self.controller = Controller(broker_id, self.log, self.config, on_session_over=self._on_session_over)
        self.broker = None
        self.registration = None
        self.is_joined = False
        self.controller.open()
        self._when(lambda: self.controller.is_caught_up and self._has_cluster(), self._open)

    def _when(self, condition, then):
        if condition():
            then()
        else:
            self.clock.call_later(10, lambda: self._when(condition, then))

    def _has_cluster(self):
        image = self.controller.image
        if not image.cluster_id and self.controller.epoch is not None:
            self.controller.submit(
                lambda image, config: Decision(() if image.cluster_id else (ClusterCreated("w" * 22),), None),
                lambda answer: None,
            )
        return bool(image.cluster_id)

    def _open(self):
        unique = itertools.count()
        flushing = Flushing(self.clock, self.jobs)
        replicas = Replicas(
            self.broker_id,
            self.controller.image,
            self.config,
            [self.folder],
            self.clock,
            self.jobs,
            lambda: f"{self.world.time.exact_ms}-{next(unique)}",
            flushing.flush,
        )
        for opening in replicas.openings():
            opening.run()
            replicas.adopt(opening)
        replicas.start()
        housekeeping = Housekeeping(replicas, flushing, self.config, self.clock, self.jobs, lambda: "x")
        self.broker = Broker(
            self.config,
            self.clock,
            self.controller,
            replicas,
            FetchSessions(100, 10_000, 120_000, lambda: self.random.getrandbits(31)),
            housekeeping,
            Metrics(),
            lambda: self.random.randbytes(16),
            HeavyWork(self.jobs),
            self,
        )
        self.jobs.at_once = False
        housekeeping.start()
        self._register(
            membership.Registration(
                self.broker_id,
                self.random.randbytes(16),
                (Endpoint("PLAINTEXT", "b", self.broker_id),),
                clean=self.folder.was_clean,
            )
        )
        self._when(self._is_registered, self._joined)

    def _is_registered(self):
        known = self.controller.image.brokers.get(self.broker_id)
        return known is not None and known.incarnation == self.registration.incarnation

    def _joined(self):
        self.is_joined = True
        self.broker.on_joined()
        self._register(replace(self.registration, ready=True, clean=True))

    def _register(self, registration):
        self.registration = registration
        self.log.register(self.broker_id, membership.encode(registration))

    def _on_session_over(self):
        if self.registration is not None:
            self.clock.call_soon(self._new_session)

    def _new_session(self):
        self.controller.open()
        self._register(self.registration)

    # The Peers port

    def ask(self, broker_id, lane, request, version, answer, *, timeout_ms):
        call = Call()
        settled = []

        def settle(value):
            if not settled and not call.cancelled:
                settled.append(value)
                answer(value)

        self.clock.call_later(timeout_ms, lambda: settle(NetworkException("silence")))
        self.world.transmit(self, broker_id, request, version, call, settle)
        return call

    def serve(self, request, version, respond):
        if self.broker is None:
            respond(NetworkException("not there yet"))
            return None
        context = self.broker.context(Client("", 0), "sim", version)

        def finished(response, error):
            respond(NetworkException(str(error)) if error is not None else response)

        running = Running(ROUTES[request.API_KEY].handler(request, context), finished)  # type: ignore[arg-type]
        running.step()
        return running

    # What happens to it

    def kill(self):
        self.clock.close()
        self.log.cut()
        self.log._listener = None

    def stop(self):
        """Cleanly."""
        self.broker.close()
        self.folder.close()
        self.kill()

    def pause(self):
        self.clock.pause()
        self.log.cut()

    def resume(self):
        self.clock.resume()
        self.clock.call_later(self.random.uniform(0, 20), self.log.reconnect)


class ClusterWorld(Simulation):
    def __init__(self, seed, checks=None):
        super().__init__(seed)
        self.shared = Shared(lambda call: self.time.call_later(self.random.uniform(0.2, 3), call))  # type: ignore[arg-type]
        self.disks = {each: MemoryDisk(now_ms=self.time.now_ms) for each in BROKERS}
        self.members = {}
        self.blocked = set()  # pairs of brokers that do not hear each other
        self.acknowledged = {}  # (partition, offset) -> value
        self.values = itertools.count()
        self.numbers = itertools.count()
        self.calm = False
        self.slow_until = 0.0
        self.fragile = False  # a machine has lost its power and is not back in sync
        self.held = []  # messages that wait for their receiver to hear of other leaders
        from tests.simulation.cluster_checks import Checks

        self.checks = checks or Checks(self)

    # -- running ---------------------------------------------------------------------------------

    def _run(self):
        for broker_id in BROKERS:
            self.start(broker_id)
        self.until(self._created, 10_000, "a topic")
        self._produce_later()
        self._disaster_later()
        self.go_on(STORM_MS)
        self.heal()

    def _after_event(self):
        self.checks.after_event()
        if self.held:
            self._let_go()

    def _created(self):
        for member in self.members.values():
            image = member.controller.image
            if "t" in image.topics:
                return True
            if member.controller.is_active and sum(b.may_lead for b in image.brokers.values()) == 3:
                wanted = [CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=3)]
                request = CreateTopicsRequest(topics=wanted)
                member.serve(request, 7, lambda response: None)
        return False

    # -- the network -----------------------------------------------------------------------------

    def _delay(self):
        slow = self.random.random() < (0.3 if self.time.exact_ms < self.slow_until else 0.02)
        return self.random.uniform(0.1, 400 if slow else 4)

    def _passes(self, one, other):
        return frozenset((one, other)) not in self.blocked and self.random.random() > (
            0 if self.calm else 0.01
        )

    def transmit(self, source, target_id, request, version, call, settle):
        def arrive():
            target = self.members.get(target_id)
            if not self._passes(source.broker_id, target_id):
                return
            if target is None:
                self.back(source, lambda: settle(NetworkException("refused")))
                return
            target.clock.run(lambda: serve(target))

        def serve(target):
            def respond(response):
                if target.clock.is_alive and self._passes(source.broker_id, target_id):
                    self.back(source, lambda: settle(response))

            call.running = target.serve(request, version, respond)

        self._deliver(target_id, arrive)

    def back(self, source, then):
        self._deliver(source.broker_id, lambda: source.clock.run(then))

    def _deliver(self, receiver_id, arrive):
        """After a while; or just when its receiver knows of other leaders than when it was sent."""
        storm = self.time.exact_ms < self.slow_until
        if self.calm or self.random.random() >= (0.2 if storm else 0.01):
            self.time.call_later(self._delay(), arrive)
            return
        latest_ms = self.time.exact_ms + self.random.uniform(50, 800)
        self.held.append(
            Held(receiver_id, self._terms_of(receiver_id), self.random.randint(1, 3), latest_ms, arrive)
        )

    def _let_go(self):
        held, self.held = self.held, []
        for each in held:
            terms = self._terms_of(each.receiver_id)
            if terms != each.terms:
                each.terms, each.changes = terms, each.changes - 1
            if not each.changes or self.time.exact_ms >= each.latest_ms or self.calm:
                self.time.call_later(self.random.choice((0, self._delay())), each.arrive)
            else:
                self.held.append(each)

    def _terms_of(self, broker_id):
        member = self.members.get(broker_id)
        if member is None or member.broker is None:
            return None
        return [
            each.state.leader_epoch
            for each in member.broker.replicas.partitions.values()
            if each.state.topic == "t"
        ]

    # -- clients ---------------------------------------------------------------------------------

    def _produce_later(self):
        storm = self.time.exact_ms < self.slow_until
        self.time.call_later(self.random.uniform(1, 15 if storm else 60), self._produce)

    def _produce(self):
        """To whoever believes to lead: a client's metadata may be old."""
        if not self.calm:
            self._produce_later()
        first = self.random.randrange(PARTITIONS)
        leaders = [m for m in self.members.values() if self._leads(m, first)]
        if not leaders:
            return
        member = self.random.choice(leaders)
        acks = self.random.choice((-1, -1, -1, 1))
        # In an order of chance: one that is answered waits for those before it.
        values = {
            index: next(self.values)
            for index in self.random.sample(range(PARTITIONS), PARTITIONS)
            if self._leads(member, index)
        }
        request = _produce_request(values, acks, self.time.now_ms())

        def answered(response):
            if isinstance(response, NetworkException) or response is None:
                return
            for told in response.responses[0].partition_responses:
                if told.error_code == 0 and acks == -1:
                    self.acknowledged[told.index, told.base_offset] = values[told.index]
                    self.checks.on_acknowledged(told.index, told.base_offset, values[told.index])

        self.time.call_later(
            self._delay(), lambda: member.clock.run(lambda: member.serve(request, 12, answered))
        )

    def _leads(self, member, index):
        if member.broker is None or member.clock.is_paused:
            return False
        found = member.broker.replicas.partitions.get(("t", index))
        return found is not None and found.is_leader

    # -- disasters -------------------------------------------------------------------------------

    def _disaster_later(self):
        self.time.call_later(self.random.uniform(100, 900), self._disaster)

    def _disaster(self):
        if self.calm:
            return
        self._disaster_later()
        kind = self.random.choice(
            ("kill", "kill", "power", "power", "stop", "pause", "pause", "cut", "part", "part", "isolate")
            + ("elect",) * 5
            + ("return",) * 2
        )
        broker_id = self.random.choice(BROKERS)
        member = self.members.get(broker_id)
        if member is None:
            return
        if kind in ("kill", "power") and not self._may_die(broker_id, kind):
            return
        self.note(f"{kind} {broker_id}")
        getattr(self, f"_{kind}")(member)

    def _may_die(self, broker_id, kind):
        """A loss of power takes what was not synced, and for all that the controller knows so does a kill: it
        believes neither. From a loss of power until all are in sync again one such loss is survived at a time:
        the next may come when the metadata has taken note of the last. Kills alone take nothing."""
        if self.fragile and self.in_sync():
            self.fragile = False
        if (self.fragile or kind == "power") and not self._is_covered(broker_id):
            return False
        self.fragile = self.fragile or kind == "power"
        return True

    def _is_covered(self, broker_id):
        """Whether somebody else has everything, and the ISR names nobody who has not."""
        topic = self.checks.image.topics.get("t")
        return topic is not None and all(
            set(state.isr) - {broker_id} and all(self._has_all(each, state) for each in state.isr)
            for state in topic.partitions
        )

    def in_sync(self):
        image = self.checks.image
        topic = image.topics.get("t")
        return topic is not None and all(
            len(each.isr) == 3 and all(self._has_all(member, each) for member in BROKERS)
            for each in topic.partitions
        )

    def _has_all(self, broker_id, state):
        """Whether it has every record that was ever committed: being in the ISR promises no less."""
        member = self.members.get(broker_id)
        if member is None or member.broker is None or not self.is_known(member):
            return False
        found = member.broker.replicas.partitions.get((state.topic, state.index))
        return (
            found is not None
            and found.log is not None
            and found.log.end_offset >= self.checks.committed_end(state.index)
        )

    def is_known(self, member):
        """Whether the metadata has heard of this life of the broker."""
        known = self.checks.image.brokers.get(member.broker_id)
        return (
            known is not None
            and member.registration is not None
            and known.incarnation == member.registration.incarnation
        )

    def start(self, broker_id):
        self.note(f"start {broker_id}")
        self.members[broker_id] = Member(self, broker_id)

    def _gone(self, member, back_ms):
        """Its session ends by itself, or at once when its port refuses; it comes back some time."""
        del self.members[member.broker_id]
        quick = self.random.random() < 0.5
        self.time.call_later(self.random.uniform(1, 30) if quick else SESSION_MS, member.log.expire)
        self.time.call_later(back_ms, lambda: self._start_if_away(member.broker_id))

    def _start_if_away(self, broker_id):
        if broker_id not in self.members:
            self.start(broker_id)

    def _kill(self, member):
        member.kill()
        self.disks[member.broker_id].crash(lose_unsynced=False)
        self._gone(member, self.random.uniform(50, 2500))

    def _power(self, member):
        member.kill()
        self.disks[member.broker_id].crash(lose_unsynced=True)
        self._gone(member, self.random.uniform(50, 2500))

    def _stop(self, member):
        # One that the metadata has not taken note of leaves no mark of a clean stop: it may have lost something.
        if not member.is_joined or member.clock.is_paused:
            return
        member._register(replace(member.registration, stopping=True))

        def stopped():
            if self.members.get(member.broker_id) is member:
                member.stop()
                self._gone(member, self.random.uniform(50, 1500))

        member.clock.call_later(300, stopped)

    def _pause(self, member):
        member.pause()

        def expire():
            if member.clock.is_paused and not member.log.connected:
                member.log.expire()

        self.time.call_later(SESSION_MS, expire)
        self.time.call_later(self.random.uniform(100, 6000), lambda: self._resume(member))

    def _resume(self, member):
        if member.clock.is_alive and member.clock.is_paused:
            self.note(f"resume {member.broker_id}")
            member.resume()

    def _cut(self, member):
        """From the ensemble alone: the others are still in reach."""
        member.log.cut()
        until = self.random.uniform(100, 5000)
        if until > SESSION_MS:
            self.time.call_later(SESSION_MS, member.log.expire)
        self.time.call_later(until, lambda: self._reconnect(member))

    def _part(self, member):
        other = self.random.choice([each for each in BROKERS if each != member.broker_id])
        self._block([(member.broker_id, other)])

    def _isolate(self, member):
        """From the other brokers, not from the ensemble."""
        self._block([(member.broker_id, each) for each in BROKERS if each != member.broker_id])

    def _elect(self, member):
        """Leaders move to and fro in short time, while what was sent before is still under way."""
        self.slow_until = self.time.exact_ms + 300
        index, pace_ms = self.random.choice((None, 0, 1)), self.random.choice((10, 30, 60))
        for delay_ms in range(0, 300, pace_ms):
            self.time.call_later(
                delay_ms + self.random.uniform(0, pace_ms / 2), lambda: self._move_leader(index)
            )
        if self.random.random() < 0.5:
            self.time.call_later(self.random.uniform(0, 300), lambda: self._depose(member))

    def _return(self, member):
        """Leaders that hear of their successor and of their own return at once."""
        if member.clock.is_paused or not member.log.connected:
            return
        self.slow_until = self.time.exact_ms + 300
        member.log.cut()
        for index in range(PARTITIONS):
            state = self.checks.image.partition("t", index)
            if state is not None and state.leader == member.broker_id:
                self.time.call_later(self.random.uniform(5, 30), partial(self._move_leader_of, index))
                self.time.call_later(
                    self.random.uniform(50, 150), partial(self._move_leader_of, index, member.broker_id)
                )
        self.time.call_later(self.random.uniform(80, 250), lambda: self._reconnect(member))

    def _reconnect(self, member):
        if member.clock.is_alive and not member.clock.is_paused:
            member.log.reconnect()

    def _depose(self, member):
        """It believes the controller to be dead, and takes its place while that is still writing."""
        controller = member.controller
        if not self.calm and controller.epoch is None:
            member.clock.run(lambda: controller.depose(controller.lease_epoch))
            self._move_leader(None)

    def _move_leader(self, index):
        if not self.calm:
            self._move_leader_of(self.random.randrange(PARTITIONS) if index is None else index)

    def _move_leader_of(self, index, to=None):
        if self.calm and to is not None:
            return
        active, choice = [m for m in self.members.values() if m.controller.is_active], self.random.random()
        if not active:
            return

        def decide(image, config):
            before = image.partition("t", index)
            able = [each for each in before.isr if image.may_lead(each) and each != before.leader]
            able = [each for each in able if to in (None, each)]
            if before.leader < 0 or not able:
                return Decision((), None)
            after = before._replace(leader=able[int(choice * len(able))])
            return Decision((changed(leadership.with_epochs(before, after)),), None)

        active[0].clock.run(lambda: active[0].controller.submit(decide, lambda answer: None))

    def _block(self, pairs):
        blocked = {frozenset(pair) for pair in pairs}
        self.blocked |= blocked
        self.time.call_later(self.random.uniform(100, 4000), lambda: self.blocked.difference_update(blocked))

    # -- the end ---------------------------------------------------------------------------------

    def heal(self):
        self.calm = True
        self.note("heal")
        self.go_on(100)
        self.blocked.clear()
        for broker_id in BROKERS:
            member = self.members.get(broker_id)
            if member is None:
                self.start(broker_id)
            elif member.clock.is_paused:
                member.resume()
            else:
                member.log.reconnect()
        self.until(self._is_whole, 60_000, "the replicas to agree")
        self.checks.at_the_end()

    def _is_whole(self):
        if len(self.members) < 3 or not self.in_sync():
            return False
        logs = [
            member.broker.replicas.partitions["t", index].log
            for member in self.members.values()
            for index in range(PARTITIONS)
        ]
        ends = [{log.end_offset for log in logs[i::PARTITIONS]} for i in range(PARTITIONS)]
        watermarks = [{log.high_watermark for log in logs[i::PARTITIONS]} for i in range(PARTITIONS)]
        return all(len(each) == 1 for each in (*ends, *watermarks)) and ends == watermarks


def _produce_request(values, acks, now_ms):
    parts = [
        PartitionProduceData(
            index=index, records=batches.build([Record(0, now_ms, None, str(value).encode())])
        )
        for index, value in values.items()
    ]
    topic = TopicProduceData(name="t", partition_data=parts)
    return ProduceRequest(acks=acks, timeout_ms=1500, topic_data=[topic])
