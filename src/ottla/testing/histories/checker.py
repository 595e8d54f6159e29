"""The checks. All of them together take about n log n steps for n records.

Offsets that nobody has anything to say about are no anomaly: transaction markers and aborted records take
offsets too. A record counts as passed over only when a consumer read before and behind it in one go.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator

from ottla.testing.histories.anomalies import Anomaly, Kind, Report
from ottla.testing.histories.facts import Facts, Place
from ottla.testing.histories.ops import Op, Outcome
from ottla.testing.histories.timeline import Fate, Partition, Read, Run, Sent, Timeline


def check(ops: Iterable[Op], *, drained: bool = False, ignore: Collection[Kind] = ()) -> Report:
    """Looks for every kind of anomaly. `drained`: in the end consumers have read all there was."""
    timeline = Timeline(ops)
    facts = Facts(timeline)
    checks: tuple[Callable[[Timeline, Facts], Iterator[Anomaly]], ...] = (
        _inconsistent_offsets,
        _duplicates,
        _invisible_reads,
        _precommitted_reads,
        _polls,
        _sends,
        _lost_writes,
        _torn_transactions,
    )
    anomalies = [anomaly for check_ in checks for anomaly in check_(timeline, facts)]
    if drained:
        anomalies += _unseen(timeline, facts)
    reads = sum(len(run.reads) for run in timeline.runs + timeline.uncommitted_runs)
    return Report([anomaly for anomaly in anomalies if anomaly.kind not in ignore], len(timeline.sent), reads)


def _inconsistent_offsets(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    for place, values in facts.values_at.items():
        if len(values) > 1:
            shown = " and ".join(sorted(map(repr, values)))
            yield Anomaly(Kind.INCONSISTENT_OFFSETS, f"{_where(place)} is {shown}")


def _duplicates(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    """A value that is acknowledged at a second place is a duplicate too, even if nobody has read it there."""
    places = {key: set(seen) for key, seen in facts.seen_at.items()}
    for sent in timeline.sent:
        if sent.fate is Fate.VISIBLE and sent.partition is not None and sent.record.offset is not None:
            key = sent.record.topic, sent.record.value
            places.setdefault(key, set()).add((sent.partition, sent.record.offset))
    for (_, value), where in places.items():
        if len(where) > 1:
            yield Anomaly(Kind.DUPLICATE, f"{value!r} is at {' and '.join(map(_where, sorted(where)))}")


def _invisible_reads(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    """Aborted reads and phantoms."""
    topics = {sent.record.topic for sent in timeline.sent}
    for (topic, value), places in facts.seen_at.items():
        sends = facts.sent_by_value.get((topic, value), [])
        if not sends and topic in topics:
            yield Anomaly(Kind.PHANTOM, f"{value!r} at {_where(min(places))}")
            continue
        for place in sorted(places):
            possible = [sent for sent in sends if _may_be(sent, place)] or sends
            if sends and all(sent.fate is Fate.INVISIBLE for sent in possible):
                transactions = sorted({str(sent.op.transaction) for sent in possible})
                yield Anomaly(Kind.ABORTED_READ, f"{value!r} of {', '.join(transactions)} at {_where(place)}")


def _may_be(sent: Sent, place: Place) -> bool:
    """Whether this send may have put its value there."""
    if sent.op.outcome is not Outcome.OK or sent.record.offset is None or sent.partition is None:
        return sent.partition is None or sent.partition == place[0]
    return (sent.partition, sent.record.offset) == place


def _precommitted_reads(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    for run in timeline.runs:
        for read in run.reads:
            place = run.partition, read.offset
            sends = facts.sent_by_value.get((run.partition[0], read.value), [])
            possible = [sent for sent in sends if _may_be(sent, place) and sent.fate is not Fate.INVISIBLE]
            if possible and all(_is_early(read.poll, sent, timeline) for sent in possible):
                text = f"{read.value!r} of {possible[0].op.transaction} at {_where(place)}"
                yield Anomaly(Kind.PRECOMMITTED_READ, f"{text} by {run.process}")


def _is_early(poll: Op, sent: Sent, timeline: Timeline) -> bool:
    if sent.op.transaction is None:
        return False
    asked_ns = timeline.ends[sent.op.transaction].first_commit_ns
    return asked_ns is not None and poll.end_ns < asked_ns


def _polls(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    for run in timeline.runs:
        if run.position is not None and run.reads:
            missed = facts.known_between(run.partition, run.position, run.reads[0].offset)
            if missed is not None:
                yield _skipped(Kind.SKIPPED_POLL, run, run.position, run.reads[0], missed)
        yield from _steps(run, facts)
    for run in timeline.uncommitted_runs:
        yield from _steps(run, facts)


def _steps(run: Run, facts: Facts) -> Iterator[Anomaly]:
    for before, after in zip(run.reads, run.reads[1:], strict=False):
        inside = before.poll is after.poll
        if after.offset <= before.offset:
            kind = Kind.INTERNAL_NONMONOTONIC_POLL if inside else Kind.NONMONOTONIC_POLL
            text = f"{run.process} read {_where((run.partition, after.offset))} after {before.offset}"
            yield Anomaly(kind, text)
        elif after.offset > before.offset + 1:
            missed = facts.known_between(run.partition, before.offset + 1, after.offset)
            if missed is not None:
                kind = Kind.INTERNAL_SKIPPED_POLL if inside else Kind.SKIPPED_POLL
                yield _skipped(kind, run, before.offset, after, missed)


def _skipped(kind: Kind, run: Run, before: int, after: Read, missed: int) -> Anomaly:
    text = f"{run.process} went from {before} to {after.offset} without {_where((run.partition, missed))}"
    return Anomaly(kind, text)


def _sends(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    last: dict[tuple[str, Partition], Sent] = {}
    for sent in timeline.sent:
        if sent.op.outcome is not Outcome.OK or sent.partition is None or sent.record.offset is None:
            continue
        before = last.get((sent.op.process, sent.partition))
        last[sent.op.process, sent.partition] = sent
        if before is None or before.record.offset is None or sent.record.offset > before.record.offset:
            continue
        inside = before.op is sent.op or (
            sent.op.transaction is not None and before.op.transaction == sent.op.transaction
        )
        kind = Kind.INTERNAL_NONMONOTONIC_SEND if inside else Kind.NONMONOTONIC_SEND
        where = _where((sent.partition, sent.record.offset))
        yield Anomaly(kind, f"{sent.op.process} wrote {where} after {before.record.offset}")


def _lost_writes(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    for sent in timeline.sent:
        if sent.fate is Fate.VISIBLE and facts.is_passed(sent) and not facts.is_seen(sent):
            yield Anomaly(Kind.LOST_WRITE, _describe(sent))


def _torn_transactions(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    """Of a transaction that shows at all, all that was acknowledged must show, no matter which client ended it."""
    by_transaction: dict[str, list[Sent]] = defaultdict(list)
    for sent in timeline.sent:
        if sent.op.transaction is not None and sent.op.outcome is not Outcome.FAIL:
            by_transaction[sent.op.transaction].append(sent)
    for transaction, sends in by_transaction.items():
        present = [sent for sent in sends if _is_certainly_seen(sent, facts)]
        absent = [
            sent
            for sent in sends
            if sent.op.outcome is Outcome.OK and facts.is_passed(sent) and not facts.is_seen(sent)
        ]
        if present and absent:
            text = f"{transaction}: {_describe(present[0])} is there, {_describe(absent[0])} is not"
            yield Anomaly(Kind.TORN_TRANSACTION, text)


def _is_certainly_seen(sent: Sent, facts: Facts) -> bool:
    """Seen, and no other attempt to send the same value can have put it there."""
    if not facts.is_seen(sent):
        return False
    if sent.op.outcome is Outcome.OK and sent.record.offset is not None:
        return True
    return len(facts.sent_by_value[sent.record.topic, sent.record.value]) == 1


def _unseen(timeline: Timeline, facts: Facts) -> Iterator[Anomaly]:
    for sent in timeline.sent:
        if sent.fate is Fate.VISIBLE and not facts.is_passed(sent) and not facts.is_seen(sent):
            yield Anomaly(Kind.UNSEEN, _describe(sent))


def _describe(sent: Sent) -> str:
    if sent.partition is None:
        return f"{sent.record.value!r} in {sent.record.topic}"
    if sent.record.offset is None:
        return f"{sent.record.value!r} in {sent.partition[0]}-{sent.partition[1]}"
    return f"{sent.record.value!r} at {_where((sent.partition, sent.record.offset))}"


def _where(place: Place) -> str:
    (topic, partition), offset = place
    return f"{topic}-{partition}@{offset}"
