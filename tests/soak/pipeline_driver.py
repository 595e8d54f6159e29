"""A driver to be killed: counts words in two stages until it dies. Its workers die by themselves now and then.

python -m tests.soak.pipeline_driver BOOTSTRAP FOLDER CHANCE [MASTER [GUARANTEE]]

A file `trap` in FOLDER (a moment, then process ids) is sprung by the first worker that comes to this moment of a
commit: it kills these processes, which are the driver's.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ottla import pipelines
from ottla.pipelines import Operator, Pipeline, Repartition, Stage, Step, StoreSpec
from ottla.pipelines.topology import EXACTLY_ONCE

NAME, WORDS, COUNTS = "soak-count", "pipeline-words", "pipeline-counts"
STORE = StoreSpec("counts", (("n", "int64"),))


class Spread(Operator):
    """Words under themselves as keys."""

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        columns = [rows.column("value"), rows.column("value")]
        step.emit("by-word", pa.RecordBatch.from_arrays(columns, names=["key", "value"]))


class Count(Operator):
    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        counts = step.stores["counts"]
        places = counts.rows(rows.column("key"))
        np.add.at(counts["n"], places, 1)
        changed = counts.touch(places)
        keys = counts.keys(changed)
        told = zip(keys.to_pylist(), counts["n"][changed].tolist(), strict=True)
        values = pa.array([b"%s %d" % each for each in told], pa.binary())
        step.emit(COUNTS, pa.RecordBatch.from_arrays([keys, values], names=["key", "value"]))


BEFORE, INSIDE, AFTER = "before", "inside", "after"  # a commit: what a trap may wait for


def mortal(operator: Callable[[], Operator], chance: float, folder: str) -> Operator:
    """In a worker: from now on it may die before, inside and after the commit of a step, and springs traps there."""
    from ottla.client.exactly_once.owner import TransactionOwner
    from ottla.pipelines.cluster_log import PlainLog, TransactionalLog

    for home, name, moments in (
        (TransactionalLog, "commit", (BEFORE, AFTER)),
        (TransactionalLog, "flush", ("", "")),
        (TransactionOwner, "commit_transaction", (INSIDE, "")),
        (PlainLog, "commit", (BEFORE, AFTER)),
        (PlainLog, "flush", ("", "")),
    ):
        plain = getattr(home, name)
        if not hasattr(plain, "mortal"):
            setattr(home, name, _mortal(plain, chance, Path(folder) / "trap", *moments))
    return operator()


def _mortal(plain: Any, chance: float, trap: Path, before: str, after: str) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        _spring(trap, before)
        if random.random() < chance:
            os.kill(os.getpid(), signal.SIGKILL)
        result = plain(*arguments, **named)
        _spring(trap, after)
        if random.random() < chance:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    call.mortal = True  # type: ignore[attr-defined]
    return call


def _spring(trap: Path, moment: str) -> None:
    """Two workers may come at once; the second finds no trap, or kills what is dead."""
    try:
        wanted, *pids = trap.read_text().split()
    except (OSError, ValueError):
        return
    if wanted == moment:
        trap.unlink(missing_ok=True)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def pipeline(bootstrap: str, folder: str, chance: float, guarantee: str = EXACTLY_ONCE) -> Pipeline:
    stages = (
        Stage("spread", (WORDS,), partial(mortal, Spread, chance, folder), outputs=("by-word",)),
        Stage("count", ("by-word",), partial(mortal, Count, chance, folder), (STORE,), (COUNTS,)),
    )
    client = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": 20_000}
    state, between = f"{folder}/state", (Repartition("by-word", 3),)
    return Pipeline(NAME, stages, client, between, state_dir=state, guarantee=guarantee)


def main(bootstrap: str, folder: str, chance: str, master: str = "", guarantee: str = EXACTLY_ONCE) -> None:
    import ottla.spark

    settings = {"spark.master": master} if master else None
    spark = ottla.spark.session("pipeline soak", cores=2, settings=settings)
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    pipelines.run(
        pipeline(bootstrap, folder, float(chance), guarantee),
        spark,
        restarts_max=1_000,
        tasks=random.randint(1, 3),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
