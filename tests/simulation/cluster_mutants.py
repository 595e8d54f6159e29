"""Bugs to plant: each takes away one rule of replication. The simulation has to notice, and to say what is wrong."""

from ottla.broker.cluster.isr import IsrKeeper
from ottla.broker.partitions.replicas import Replicas
from ottla.metadata import brokers, leadership
from ottla.metadata.log import Outrun, Unavailable
from ottla.metadata.shared import SharedLog
from ottla.replication import fetcher
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from tests.simulation.planted import Mutants

MUTANTS = Mutants()
caught_as = MUTANTS.caught_as


# -- one leader for an epoch, and one controller -------------------------------------------------


def _with_epochs(patch, change):
    original = leadership.with_epochs

    def with_epochs(before, after, **options):
        final = original(before, after, **options)
        return final if final is None else change(before, final)

    patch.setattr(leadership, "with_epochs", with_epochs)


@caught_as("an epoch of two leaders")
def a_new_leader_has_no_new_epoch(patch):
    _with_epochs(patch, lambda before, final: final._replace(leader_epoch=before.leader_epoch))


@caught_as("the leader epoch falls")
def the_leader_epoch_starts_anew(patch):
    _with_epochs(patch, lambda before, final: final._replace(leader_epoch=final.leader_epoch % 3))


@caught_as("the partition epoch stands")
def a_new_isr_has_no_new_epoch(patch):
    _with_epochs(patch, lambda before, final: final._replace(partition_epoch=before.partition_epoch))


@caught_as("two leaders of epoch")
def anybody_leads_when_nobody_does(patch):
    patch.setattr(Partition, "is_leader", property(lambda self: self.state.leader in (self._broker_id, -1)))


@caught_as("a controller of epoch")
def a_controller_that_was_deposed_writes_on(patch):
    def guarded(self, position, epoch, write, done):
        def at_the_ensemble():
            if not self.connected:
                done(Unavailable("no connection"))
            elif position != self._shared.end:
                done(Outrun("somebody was quicker"))
            else:
                write()
                self._deliver()
                done(None)

        self._shared.later(at_the_ensemble)

    patch.setattr(SharedLog, "_guarded", guarded)


# -- who is in sync, and who may lead ------------------------------------------------------------


def _with_isr(patch, change):
    original = leadership.with_isr

    def with_isr(partition, isr, min_isr, *, lost=()):
        return change(partition, original(partition, isr, min_isr, lost=lost))

    patch.setattr(leadership, "with_isr", with_isr)


@caught_as("the ISR is not of the replicas")
def a_stranger_is_in_sync(patch):
    _with_isr(patch, lambda before, after: after._replace(isr=(*after.isr, 4)))


@caught_as("in the ISR and eligible")
def who_is_elected_stays_eligible(patch):
    original = leadership._led_by_eligible
    patch.setattr(
        leadership,
        "_led_by_eligible",
        lambda partition, leader: original(partition, leader)._replace(elr=partition.elr),
    )


@caught_as("eligible leaders beside a full ISR")
def who_was_eligible_stays_so(patch):
    def change(before, after):
        return after._replace(elr=tuple(each for each in before.elr if each not in after.isr))

    _with_isr(patch, lambda before, after: change(before, after) if before.elr else after)


@caught_as("the leader is not in sync")
def a_leader_that_was_lost_is_not_replaced(patch):
    patch.setattr(leadership, "elected", lambda partition, may_lead, *, unclean=False: partition)


@caught_as("may lead and lacks what was committed")
def who_lost_its_disk_stays_eligible(patch):
    original = leadership.with_isr
    patch.setattr(leadership, "with_isr", lambda *args, lost=(): original(*args))


@caught_as("may lead and lacks what was committed")
def a_leader_takes_followers_out_of_the_isr_by_itself(patch):
    def wanted(self, partition, isr):
        partition.state = partition.state._replace(isr=tuple(sorted(isr)))
        partition.advance()

    patch.setattr(IsrKeeper, "on_wanted", wanted)


@caught_as("came into the ISR")
def a_follower_joins_the_isr_early(patch):
    def expand(self, replica_id, offset, log):
        return frozenset({*self.state.isr, replica_id}) if self.proposed_isr is None else None

    patch.setattr(Partition, "_expanded_isr", expand)


@caught_as("may lead and lacks what was committed")
def an_unclean_stop_is_believed_to_be_clean(patch):
    original = brokers.register
    patch.setattr(
        "ottla.metadata.membership.brokers.register",
        lambda *args, clean, **options: original(*args, clean=True, **options),
    )


@caught_as("came into the ISR")
def anybody_is_elected(patch):
    def elected(partition, may_lead, *, unclean=False):
        if partition.leader >= 0 and may_lead(partition.leader):
            return partition
        living = [each for each in partition.replicas if may_lead(each)]
        if not living:
            return partition._replace(leader=-1)
        return leadership._led_uncleanly(partition, living[-1])

    patch.setattr(leadership, "elected", elected)


@caught_as("was shown as|may lead and lacks what was committed")
def a_broker_leads_on_after_a_restart(patch):
    patch.setattr(Replicas, "_as_joined", lambda self, state: state)


# -- the high watermark, and what is acknowledged ------------------------------------------------


@caught_as("may lead and lacks what was committed")
def the_high_watermark_does_not_wait_for_followers(patch):
    patch.setattr(Partition, "_least_in_sync", lambda self, log, end: end)


@caught_as("may lead and lacks what was committed")
def the_high_watermark_moves_below_min_isr(patch):
    patch.setattr(Partition, "min_isr", lambda self, log: 1)


@caught_as("the high watermark falls within an epoch")
def the_high_watermark_follows_whoever_is_last(patch):
    original = Partition.advance

    def advance(self):
        log = self.log
        if log is not None and self.is_leader and len(self.state.isr) >= self.min_isr(log):
            end = self._least_in_sync(log, log.end_offset)
            if 0 <= end < log.high_watermark:
                log.high_watermark = end
        original(self)

    patch.setattr(Partition, "advance", advance)


@caught_as("the high watermark is above the end")
def a_follower_takes_its_leaders_high_watermark_for_its_own(patch):
    def advance(self, offset):
        self.high_watermark = max(self.high_watermark, offset)

    patch.setattr(Log, "advance_high_watermark", advance)


@caught_as("was acknowledged as")
def what_another_led_since_is_acknowledged(patch):
    original = Partition.is_committed
    patch.setattr(Partition, "is_committed", lambda self, end, tenure: original(self, end, self.tenure))


# -- following -----------------------------------------------------------------------------------


@caught_as("its leader believes")
def a_leader_takes_a_fetch_of_another_epoch(patch):
    patch.setattr(Partition, "_check_epoch", lambda self, leader_epoch: None)


@caught_as("believes it to be of")
def a_follower_takes_an_answer_to_a_question_of_another_epoch(patch):
    original = fetcher.Fetcher._on_data

    def on_data(self, followed, asked, data, now_ms):
        now = asked._replace(leader_epoch=followed.partition.state.leader_epoch)
        original(self, followed, now, data, now_ms)

    patch.setattr(fetcher.Fetcher, "_on_data", on_data)


@caught_as("it does not come to rest")
def followers_do_not_truncate(patch):
    patch.setattr(fetcher, "truncate", lambda log, epoch, end: log.epochs.truncate_from_end(log.end_offset))


@caught_as("was shown as")
def a_log_forgets_its_epochs(patch):
    patch.setattr(Log, "end_of_epoch", lambda self, epoch: (epoch, self.end_offset))


@caught_as("was shown and is gone")
def a_follower_lets_go_of_what_its_leader_has(patch):
    original = Partition.on_replicated

    def on_replicated(self, high_watermark, log_start_offset, now_ms):
        original(self, high_watermark, self.log.high_watermark - 20, now_ms)

    patch.setattr(Partition, "on_replicated", on_replicated)
