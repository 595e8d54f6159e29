"""Follows the metadata log into an image; under the lease, writes decisions to it, one at a time."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar, cast

from ottla import errors
from ottla.config.settings import Config
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.metadata import membership
from ottla.metadata.decision import Decision
from ottla.metadata.difference import differences
from ottla.metadata.image import BROKER_RESOURCE, Image
from ottla.metadata.leadership import UNCLEAN_ELECTION, unclean_elections
from ottla.metadata.log import AppendFailed, Deposed, DiskFailed, MetadataLog, Outrun, TooLarge, Unavailable
from ottla.metadata.records import ConfigSet, ControllerChanged, Record

Answer = TypeVar("Answer")


@frozen
class _Wanted:
    decide: Callable[[Image, Config], Decision[object]]
    answer: Callable[[object], None]
    validate_only: bool


class Controller:
    """Every broker runs one; one of them holds the lease. `epoch` is None while it is not this one.

    `config` is the static configuration; decisions see it under the cluster's dynamic defaults. `on_news` is called
    after a change of the lease or of the members.
    """

    QUEUE_MAX = 10_000

    def __init__(
        self,
        broker_id: int,
        log: MetadataLog,
        config: Config,
        *,
        on_session_over: Callable[[], None] = lambda: None,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.broker_id = broker_id
        self.image = Image()
        self.epoch: int | None = None
        self.members: dict[int, membership.Registration] | None = None
        """Brokers with a session; None until the log has told: nobody is lost before that."""
        self.holder: int | None = None
        """Who is the controller, as far as the log has told; `lease_epoch` is under which epoch."""
        self.lease_epoch = 0
        self.is_caught_up = False
        self._on_session_over, self._on_news = on_session_over, on_news
        self._gone: set[tuple[int, bytes]] = set()
        self._log = log
        self._config = config
        self._cluster_config = config
        self._queue: deque[_Wanted] = deque()
        self._writing = False
        self._going_on = False
        self._stalled = False
        self._snapshot_position = 0
        self._opened_epoch: int | None = None
        self._leaderless_due = False

    @property
    def is_active(self) -> bool:
        """It holds the lease and has read everything that was written before."""
        return self.epoch is not None and self.epoch == self._opened_epoch

    def open(self) -> None:
        """Begin to follow, or go on with a new session."""
        self.members = None
        self.is_caught_up = False
        self._log.open(self, self.image.position)

    def submit(
        self,
        decide: Callable[[Image, Config], Decision[Answer]],
        answer: Callable[[Answer | ProtocolError], None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Decide on the newest image, write the records, and answer once they are committed and applied.

        The answer is the decision's, or the error that it ended with. After a refused write the decision is made again,
        on the newer image.
        """
        if self.epoch is None:
            return answer(errors.NotController())
        if len(self._queue) >= self.QUEUE_MAX:
            return answer(errors.ThrottlingQuotaExceeded("Too many changes are waiting."))
        # `_decide` gives an answer nothing but its own decision's answer, or a ProtocolError.
        self._queue.append(_Wanted(decide, cast("Callable[[object], None]", answer), validate_only))
        return self._go_on()

    def catch_up(self, done: Callable[[], None]) -> None:
        """`done` once the image has what was committed before."""
        self._log.catch_up(done)

    def on_gone(self, broker_id: int) -> None:
        """A broker's port refuses: it is lost before its session tells so, until `on_back`."""
        member = (self.members or {}).get(broker_id)
        if member is not None:
            self._gone.add((broker_id, member.incarnation))
            self._go_on()

    def on_back(self, broker_id: int) -> None:
        self._gone = {registration for registration in self._gone if registration[0] != broker_id}
        self._go_on()

    def depose(self, epoch: int) -> None:
        """The controller of this epoch is believed dead: take its place."""
        self._log.claim(self.broker_id, over=epoch)

    def cluster_config(self) -> Config:
        """The settings under the dynamic defaults of all brokers."""
        dynamic = self.image.settings(BROKER_RESOURCE, "")
        if dynamic != self._cluster_config.dynamic_default:
            self._cluster_config = self._config.with_dynamic(dynamic, {})
        return self._cluster_config

    # Inputs from the log

    def on_snapshot(self, position: int, records: Sequence[Record]) -> None:
        target = Image()
        for record in records:
            target.apply(record)
        self.image.apply_entry(position - 1, list(differences(self.image, target)))
        self._snapshot_position = position

    def on_entry(self, position: int, records: Sequence[Record]) -> None:
        self.image.apply_entry(position, records)
        self._leaderless_due |= any(
            isinstance(record, ConfigSet) and record.name == UNCLEAN_ELECTION for record in records
        )

    def on_lease(self, holder: int | None, epoch: int) -> None:
        self.holder, self.lease_epoch, self.is_caught_up = holder, epoch, True
        if holder == self.broker_id:
            self.epoch = epoch
            self._go_on()
        else:
            self._step_down()
            if holder is None:
                self._log.claim(self.broker_id)
        self._on_news()

    def on_members(self, members: Mapping[int, bytes]) -> None:
        self.members = {broker_id: membership.decode(data) for broker_id, data in members.items()}
        self._gone &= {(member.broker_id, member.incarnation) for member in self.members.values()}
        self._go_on()
        self._on_news()

    def on_session_lost(self) -> None:
        self.members = None
        self.holder = None
        self._step_down()
        self._on_session_over()

    # Writing

    def _go_on(self) -> None:
        """Write what is next. A log that answers at once comes back here: then the loop is under way."""
        if self._going_on:
            return
        self._going_on = True
        try:
            self._stalled = False
            while not self._writing and not self._stalled and self.epoch is not None and self._take_next():
                pass
        finally:
            self._going_on = False

    def _take_next(self) -> bool:
        """The epoch's first record, then what the members call for, then requests."""
        assert self.epoch is not None
        if not self.is_active:
            self._open_epoch(self.epoch)
        elif self._snapshot_is_due():
            self._snapshot()
        elif (step := self._next_step()) is not None:
            # Half a step is a step: the rest is found again.
            self._write(step.records[: membership.RECORDS_PER_ENTRY], self._stall_if)
        elif self._queue:
            self._decide(self._queue.popleft())
        else:
            return False
        return True

    def _next_step(self) -> Decision[None] | None:
        if self.members is None:
            return None
        members = self.members
        if self._gone:
            members = {
                broker_id: member
                for broker_id, member in members.items()
                if (broker_id, member.incarnation) not in self._gone
            }
        return membership.next_step(members, self.image, self.cluster_config()) or self._unclean_elections()

    def _unclean_elections(self) -> Decision[None] | None:
        """When unclean.leader.election.enable was set while brokers are away, nothing else would elect."""
        if not self._leaderless_due:
            return None
        elections = unclean_elections(self.image, self.cluster_config())
        records = tuple(islice(elections, membership.RECORDS_PER_ENTRY))
        self._leaderless_due = bool(records)
        return Decision(records, None) if records else None

    def _decide(self, wanted: _Wanted) -> None:
        try:
            decision = wanted.decide(self.image, self.cluster_config())
        except ProtocolError as error:
            return wanted.answer(error)
        if wanted.validate_only or not decision.records:
            return wanted.answer(decision.answer)

        def written(failed: AppendFailed | None) -> None:
            if isinstance(failed, Outrun):
                self._queue.appendleft(wanted)
            elif isinstance(failed, TooLarge):
                wanted.answer(errors.PolicyViolation(str(failed)))
            elif isinstance(failed, DiskFailed):
                wanted.answer(errors.KafkaStorageError(str(failed)))
            elif failed is not None:
                wanted.answer(errors.NotController())
            else:
                wanted.answer(decision.answer)

        return self._write(decision.records, written)

    def _write(self, records: Sequence[Record], then: Callable[[AppendFailed | None], None]) -> None:
        epoch = self.epoch
        assert epoch is not None
        self._writing = True

        def done(failed: AppendFailed | None) -> None:
            self._writing = False
            if isinstance(failed, Deposed | Unavailable) and epoch == self.epoch:
                # Somebody else may write now, so nothing more under this epoch.
                self._step_down()
                if isinstance(failed, Unavailable):
                    self._log.resign()
            then(failed)
            self._go_on()

        self._log.append(self.image.position, epoch, records, done)

    def _open_epoch(self, epoch: int) -> None:
        def written(failed: AppendFailed | None) -> None:
            self._stall_if(failed)
            if failed is None:
                self._opened_epoch = epoch
                self._leaderless_due = True  # the last controller may have gone before it elected

        self._write((ControllerChanged(self.broker_id, epoch),), written)

    def _stall_if(self, failed: AppendFailed | None) -> None:
        """What we want ourselves is not tried again at once: the next input comes soon enough."""
        self._stalled = isinstance(failed, DiskFailed | TooLarge)

    def _snapshot_is_due(self) -> bool:
        entries = self.image.position - self._snapshot_position
        return entries >= self._config.ottla_metadata_snapshot_entries

    def _snapshot(self) -> None:
        assert self.epoch is not None
        self._snapshot_position = position = self.image.position
        self._writing = True

        def done(failed: AppendFailed | None) -> None:
            self._writing = False
            self._go_on()  # one that failed is made after as many entries again

        self._log.snapshot(position, self.epoch, list(self.image.records()), done)

    def _step_down(self) -> None:
        self.epoch = None
        waiting, self._queue = self._queue, deque()
        for wanted in waiting:
            wanted.answer(errors.NotController())
