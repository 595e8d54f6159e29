"""How much a micro-batch takes, and how it is cut into tasks: the same answer for the same offsets, always."""

from collections.abc import Iterable

from ottla.client.columnar.ranges import Range
from ottla.spark.offsets import Offsets, Positions, starts


def limited(begin: Positions, end: Positions, rows_max: int) -> Positions:
    """Ends for about `rows_max` records: each partition's share is that of its lag."""
    lags = {p: max(0, end[p] - begin.get(p, end[p])) for p in end}
    total = sum(lags.values())
    if total <= rows_max:
        return end
    ends: Positions = {}
    for partition, lag in lags.items():
        share = rows_max * lag / total
        # Less than one would never get on.
        ends[partition] = end[partition] - lag + min(lag, max(1, int(share)) if lag else 0)
    return ends


def behind(planned: Positions, latest: Positions) -> int:
    """Records that wait after the micro-batch that is planned."""
    return sum(max(0, end - planned.get(partition, end)) for partition, end in latest.items())


def tasks_for(partitions: int, cores: int) -> int:
    """About one task a core, none without a partition of its own."""
    return max(1, min(partitions, cores))


def ranges(start: Offsets, end: Offsets) -> list[list[Range]]:
    """Exactly `end.tasks` lists: the sink counts on the number, so a task may have nothing to do."""
    begins = starts(start, end)
    wanted = [
        Range(p.topic, p.partition, begins[p], until, bytes.fromhex(end.ids.get(p.topic, "") or "00" * 16))
        for p, until in sorted(end.positions.items())
        if until > begins[p]
    ]
    return _cut(wanted, end.tasks) if end.split else _dealt(wanted, end.tasks)


def _dealt(wanted: Iterable[Range], tasks: int) -> list[list[Range]]:
    """Whole partitions, so that their order is kept: the largest first, each to the task with the least."""
    bins: list[list[Range]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for piece in sorted(wanted, key=lambda r: (r.start - r.end, r.topic, r.partition)):
        least = sizes.index(min(sizes))
        bins[least].append(piece)
        sizes[least] += piece.end - piece.start
    return bins


def _cut(wanted: list[Range], tasks: int) -> list[list[Range]]:
    """Equal shares of all the offsets, in order; a partition may go over several tasks."""
    total = sum(piece.end - piece.start for piece in wanted)
    bins: list[list[Range]] = [[] for _ in range(tasks)]
    before = 0
    for piece in wanted:
        at = piece.start
        while at < piece.end:
            task = min(tasks - 1, before * tasks // max(total, 1))
            room = -(-(task + 1) * total // tasks) - before if task < tasks - 1 else piece.end - at
            until = min(piece.end, at + max(1, room))
            bins[task].append(piece._replace(start=at, end=until))
            before += until - at
            at = until
    return bins
