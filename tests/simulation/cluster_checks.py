"""What must hold in a cluster after every event, whatever befell it."""

from ottla.metadata import codec
from ottla.metadata.image import Image
from ottla.metadata.records import RECOVERED
from ottla.testing.world.ledger import Broken
from ottla.wire import batch as batches
from ottla.wire import records


class Checks:
    def __init__(self, world):
        self._world = world
        self.image = Image()  # of what the ensemble holds, whoever has heard of it
        self._leaders = {}  # (partition, leader epoch) -> broker
        self._watermarks = {}  # (member, partition, leader epoch) -> high watermark
        self._exposed = {}  # partition -> {base offset: (next offset, leader epoch, value)}
        self._committed = {}  # partition -> where what was ever shown ends
        self._seen = {}  # (member, partition) -> (high watermark, end, ...) at the last look
        self._acknowledged = []  # since the last look
        self._has_news = False  # a log or the metadata changed since then

    def hold(self, condition, what):
        if not condition:
            raise Broken(what)

    def committed_end(self, index):
        return self._committed.get(index, 0)

    def on_acknowledged(self, index, offset, value):
        self._acknowledged.append((index, offset, value))

    def after_event(self):
        self._follow_log()
        for member in self._world.members.values():
            if member.broker is None:
                continue
            for (topic, index), partition in member.broker.replicas.partitions.items():
                if topic == "t" and partition.log is not None:
                    self._partition(member, index, partition)
                    if partition.is_leader:
                        self._beliefs(index, partition)
        if self._has_news:
            self._has_news = False
            self._in_sync()
        if self._acknowledged:
            self._shown()

    def _shown(self):
        """What is acknowledged is committed: whoever thought so alone did not lead any more."""
        acknowledged, self._acknowledged = self._acknowledged, []
        for index, offset, value in acknowledged:
            shown = self._exposed.get(index, {}).get(offset)
            self.hold(
                shown is not None and shown[2] == value,
                f"{index}: {offset} was acknowledged as {value} and shown as {shown}",
            )

    # -- the metadata ----------------------------------------------------------------------------

    def _follow_log(self):
        shared = self._world.shared
        while self.image.position < shared.end:
            self._has_news = True
            position = self.image.position
            if position not in shared.entries:
                at, body = shared.snapshot
                self.image = Image()
                self.image.apply_entry(at - 1, codec.decode(body))
                continue
            before = {(p.topic, p.index): p for p in self.image.partitions()}
            epoch, body = shared.entries[position]
            self.hold(
                epoch == shared.epoch,
                f"a controller of epoch {epoch} wrote {position} in epoch {shared.epoch}",
            )
            self.image.apply_entry(position, codec.decode(body))
            for after in self.image.partitions():
                self._rules(before.get((after.topic, after.index)), after)

    def _rules(self, before, after):
        name = f"{after.topic}-{after.index}: {after}"
        self.hold(set(after.isr) <= set(after.replicas), f"the ISR is not of the replicas: {name}")
        self.hold(not set(after.isr) & set(after.elr), f"in the ISR and eligible: {name}")
        self.hold(after.leader < 0 or after.leader in after.isr, f"the leader is not in sync: {name}")
        self.hold(len(after.isr) < 2 or not after.elr, f"eligible leaders beside a full ISR: {name}")
        if before is not None and before != after:
            self.hold(after.partition_epoch > before.partition_epoch, f"the partition epoch stands: {name}")
            self.hold(after.leader_epoch >= before.leader_epoch, f"the leader epoch falls: {name}")
            moved = after.leader not in (before.leader, -1)
            self.hold(
                not moved or after.leader_epoch > before.leader_epoch, f"an epoch of two leaders: {name}"
            )
            if after.recovery_state == RECOVERED:
                self._newcomers(set(after.isr) - set(before.isr), after)

    def _newcomers(self, broker_ids, state):
        """Whoever comes into the ISR may lead from then on: it has all that was ever committed."""
        for broker_id in broker_ids:
            log = self._log_of(broker_id, state.index)
            if log is not None:
                self.hold(
                    log.end_offset >= self.committed_end(state.index),
                    f"{state.index}: {broker_id} ends at {log.end_offset} and came into the ISR",
                )

    def _in_sync(self):
        """Whoever is in the ISR or eligible may lead at any time: it has all that was ever committed."""
        topic = self.image.topics.get("t")
        for state in topic.partitions if topic is not None else ():
            if state.recovery_state != RECOVERED:
                continue
            committed = self.committed_end(state.index)
            for broker_id in (*state.isr, *state.elr):
                log = self._log_of(broker_id, state.index)
                self.hold(
                    log is None or log.end_offset >= committed,
                    f"{state.index}: {broker_id} may lead and lacks what was committed: {state}",
                )

    def _log_of(self, broker_id, index):
        """Of the life of the broker that the metadata knows."""
        member = self._world.members.get(broker_id)
        if member is None or member.broker is None or not self._world.is_known(member):
            return None
        found = member.broker.replicas.partitions.get(("t", index))
        return found.log if found is not None else None

    # -- partitions ------------------------------------------------------------------------------

    def _partition(self, member, index, partition):
        log, state = partition.log, partition.state
        now = log.high_watermark, log.end_offset, state.leader_epoch, state.leader
        key = member.number, index
        before = self._seen.get(key)
        if before == now:
            return
        self._seen[key] = now
        self._has_news = True
        self.hold(log.high_watermark <= log.end_offset, f"{index}: the high watermark is above the end")
        if partition.is_leader:
            leads = self._leaders.setdefault((index, state.leader_epoch), member.broker_id)
            self.hold(leads == member.broker_id, f"{index}: two leaders of epoch {state.leader_epoch}")
            term = member.number, index, state.leader_epoch
            last = self._watermarks.get(term, -1)
            self.hold(log.high_watermark >= last, f"{index}: the high watermark falls within an epoch")
            self._watermarks[term] = log.high_watermark
        is_cut = before is None or log.end_offset < before[1]
        self._compare(member, index, log, 0 if is_cut else before[0])
        self._epochs(member, index, log, 0 if is_cut else before[1])

    def _epochs(self, member, index, log, start):
        """A log knows the leader epochs of its records: so they rise from one to the next."""
        if log.end_offset <= start:
            return
        taken = log.read(max(start, log.log_start_offset), max_bytes=1 << 30, up_to=log.end_offset)
        for _, header in batches.headers(taken.data):
            known = log.epochs.epoch_of(header.base_offset)
            self.hold(
                known == header.leader_epoch,
                f"{index}: broker {member.broker_id} has {header.base_offset} of epoch {header.leader_epoch} "
                f"and believes it to be of {known}",
            )

    def _beliefs(self, index, partition):
        """What a leader believes a follower to have it has: of the same life, and if it knows of this epoch."""
        for broker_id, replica in partition.followers.items():
            log = self._log_of(broker_id, index)
            if log is None:
                continue
            member = self._world.members[broker_id]
            state = member.broker.replicas.partitions["t", index].state
            life = self.image.brokers[broker_id].epoch
            if (state.leader, state.leader_epoch, life) == (
                partition.state.leader,
                partition.state.leader_epoch,
                replica.broker_epoch,
            ):
                self.hold(
                    log.end_offset >= replica.end_offset,
                    f"{index}: {broker_id} ends at {log.end_offset}, its leader believes {replica.end_offset}",
                )

    def _compare(self, member, index, log, start):
        """What is shown here was never shown otherwise elsewhere, and what is new is known from now on."""
        exposed = self._exposed.setdefault(index, {})
        if log.high_watermark <= start:
            return
        taken = log.read(max(start, log.log_start_offset), max_bytes=1 << 30, up_to=log.high_watermark)
        for position, header in batches.headers(taken.data):
            value = int(records.read(taken.data, position)[0].value)
            found = (header.next_offset, header.leader_epoch, value)
            known = exposed.setdefault(header.base_offset, found)
            self._committed[index] = max(self._committed.get(index, 0), header.next_offset)
            self.hold(
                known == found,
                f"{index}: {header.base_offset} was shown as {known}, broker {member.broker_id} has {found}",
            )

    def at_the_end(self):
        for member in self._world.members.values():
            for index, exposed in self._exposed.items():
                log = member.broker.replicas.partitions["t", index].log
                taken = log.read(log.log_start_offset, max_bytes=1 << 30, up_to=log.end_offset)
                there = {
                    header.base_offset: int(records.read(taken.data, position)[0].value)
                    for position, header in batches.headers(taken.data)
                }
                for offset, (_, _, value) in exposed.items():
                    self.hold(there.get(offset) == value, f"{index}: {offset} was shown and is gone")
