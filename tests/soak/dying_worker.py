"""`ottla connect` that dies between the two commits of a sink's step, and that can be given a bug.

    python -m tests.soak.dying_worker FOLDER BUG connect ...

A step commits at the sink first, then to the sink's group. The time between is so short that kills at random moments
hardly ever fall into it. If the file FOLDER/die names a connector, the process gets SIGKILL there, in the next step of
that connector. BUG is a name of `BUGS`: the soak must see it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.cli.main import main as ottla
from ottla.client.values import TopicPartition
from ottla.connect.spi import Sink
from ottla.connect.tasks.sink import Failed, SharedSink
from ottla.connect.tasks.spec import Spec

ORDER = "die"
Positions = Mapping[TopicPartition, int]


def none(sink: Sink) -> None:
    """As it is."""


def repeat(sink: Sink) -> None:
    """A step that is repeated writes again what the sink has already."""
    positions = sink.positions

    def forgotten(partitions: Sequence[TopicPartition]) -> Positions:
        positions(partitions)  # begins the sink's transaction
        return {}

    sink.positions = forgotten  # type: ignore[method-assign]


def skip(sink: Sink) -> None:
    """After a start the first record of each partition is left out."""
    positions, started = sink.positions, set[TopicPartition]()

    def too_far(partitions: Sequence[TopicPartition]) -> Positions:
        known = dict(positions(partitions) or {})
        for where in set(known) - started:
            known[where] += 1
        started.update(partitions)
        return known

    sink.positions = too_far  # type: ignore[method-assign]


BUGS: dict[str, Callable[[Sink], None]] = {bug.__name__: bug for bug in (none, repeat, skip)}


def prepare(order: Path, bug: str) -> None:
    begin, step = SharedSink.__init__, SharedSink.step
    names: dict[SharedSink, str] = {}

    def begun(self: SharedSink, spec: Spec) -> None:
        begin(self, spec)
        names[self] = spec.name
        BUGS[bug](self.sink)

    def dying(self: SharedSink, where: TopicPartition, rows: Any, failed: Failed) -> None:
        step(self, where, rows, failed)
        if order.exists() and order.read_text() == names[self]:
            order.unlink()  # the next process lives
            os.kill(os.getpid(), signal.SIGKILL)

    SharedSink.__init__, SharedSink.step = begun, dying  # type: ignore[method-assign]


if __name__ == "__main__":
    prepare(Path(sys.argv[1]) / ORDER, sys.argv[2])
    sys.exit(ottla(sys.argv[3:]))
