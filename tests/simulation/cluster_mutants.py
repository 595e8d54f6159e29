"""Bugs to plant: each takes away one rule of replication. The simulation has to notice.

Two rules stand behind others, so that without them nothing wrong is seen here: that a leader takes no fetch of
another epoch, and a follower no answer to a question of another epoch (what diverged would be cut at the next fetch).
They have tests of their own: test_acknowledgements.py and tests/unit/replication.
"""

from ottla.broker.replicas import Replicas
from ottla.metadata import brokers, leadership
from ottla.replication import fetcher
from ottla.replication.partition import Partition
from ottla.storage.log import Log


def the_high_watermark_does_not_wait_for_followers(patch):
    patch.setattr(Partition, "_least_in_sync", lambda self, log, end: end)


def the_high_watermark_moves_below_min_isr(patch):
    patch.setattr(Partition, "min_isr", lambda self, log: 1)


def followers_do_not_truncate(patch):
    patch.setattr(fetcher, "truncate", lambda log, epoch, end: log.epochs.truncate_from_end(log.end_offset))


def a_broker_leads_on_after_a_restart(patch):
    patch.setattr(Replicas, "_as_joined", lambda self, state: state)


def an_unclean_stop_is_believed_to_be_clean(patch):
    original = brokers.register
    patch.setattr(
        "ottla.metadata.membership.brokers.register",
        lambda *args, clean, **options: original(*args, clean=True, **options),
    )


def anybody_is_elected(patch):
    def elected(partition, may_lead, *, unclean=False):
        if partition.leader >= 0 and may_lead(partition.leader):
            return partition
        living = [each for each in partition.replicas if may_lead(each)]
        if not living:
            return partition._replace(leader=-1)
        return leadership._led_uncleanly(partition, living[-1])

    patch.setattr(leadership, "elected", elected)


def a_log_forgets_its_epochs(patch):
    patch.setattr(Log, "end_of_epoch", lambda self, epoch: (epoch, self.end_offset))


def a_follower_joins_the_isr_early(patch):
    def expand(self, replica_id, offset, log):
        if self.proposed_isr is None:
            self.on_isr_wanted(self, frozenset({*self.state.isr, replica_id}))

    patch.setattr(Partition, "_maybe_expand", expand)


def what_another_led_since_is_acknowledged(patch):
    original = Partition.is_committed
    patch.setattr(Partition, "is_committed", lambda self, end, tenure: original(self, end, self.tenure))


MUTANTS = [
    a_follower_joins_the_isr_early,
    what_another_led_since_is_acknowledged,
    the_high_watermark_does_not_wait_for_followers,
    the_high_watermark_moves_below_min_isr,
    followers_do_not_truncate,
    a_broker_leads_on_after_a_restart,
    an_unclean_stop_is_believed_to_be_clean,
    anybody_is_elected,
    a_log_forgets_its_epochs,
]
