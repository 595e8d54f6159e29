"""How fast keyed state is on this machine. Run: python -m bench.pipelines_state [KEYS ...]

A store of counts behind keys of 15 bytes, one core. Rates are million rows for each second of processor time, the best
of 3 calls. "Known rows" finds keys that are there, "apply" takes records of a changelog with repeated keys, "changes"
makes them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from bench import document
from ottla.pipelines.state import KeyedStore, StoreSpec, kernel, table_py
from ottla.pipelines.state.arrays import MemoryArrays
from ottla.pipelines.state.mapped import MappedArrays

SPEC = StoreSpec("counts", (("count", "int64"),))
KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
PYTHON_KEYS_MAX = 1_000_000
BATCH = 500_000  # records of a step
ROUNDS = 3
_HEAD = (
    "keyed state",
    "new rows, M/s",
    "known rows, M/s",
    "apply, M/s",
    "changes, M/s",
    "open again, ms",
    "bytes a key",
)


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Of CPU, the best of some calls."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def numbered_keys(count: int) -> Any:
    return pa.array(
        np.char.add("device-", np.char.zfill(np.arange(count).astype("U8"), 8)).astype("S15"), pa.binary()
    )


def numbers(count: int, chance: np.random.Generator) -> Any:
    edges = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * 8)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, edges, pa.py_buffer(chance.integers(0, 99, count).astype(">i8"))]
    )


@contextmanager
def arrays_in(place: str) -> Iterator[Callable[[], Any]]:
    """A maker of arrays; those of a folder are the same ones each time."""
    if place == "memory":
        memory = MemoryArrays()
        yield lambda: memory
        return
    with tempfile.TemporaryDirectory() as folder:
        yield lambda: MappedArrays(Path(folder))


def measure(count: int, place: str, functions: Any) -> list[str]:
    chance = np.random.default_rng(1)
    keys = numbered_keys(count)
    some = min(BATCH, 10 * count)
    picked = keys.take(pa.array(chance.integers(0, count, some)))
    values = numbers(some, chance)
    with arrays_in(place) as make:
        store = KeyedStore(SPEC, make(), functions)
        new = seconds(lambda: [store.rows(keys.slice(at, BATCH)) for at in range(0, count, BATCH)])
        store.forget_changes()
        known = seconds(lambda: store.rows(picked), ROUNDS)
        changed = store.touch(store.rows(picked))
        changes = seconds(lambda: (store.touch(changed), store.changes(0)), ROUNDS)
        apply = seconds(lambda: store.apply(picked, values), ROUNDS)
        again = seconds(lambda: KeyedStore(SPEC, make(), functions).find(picked.slice(0, 1)), ROUNDS)
        size = store.nbytes / count
    rates = [count / new, some / known, some / apply, len(changed) / changes]
    return [*(f"{rate / 1e6:.2f}" for rate in rates), f"{again * 1e3:.1f}", f"{size:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("keys", nargs="*", type=int, metavar="KEYS", help="numbers of keys")
    options = parser.parse_args()
    print(document.table(_HEAD, list(_measure_all(options.keys or KEYS))))


def _measure_all(sizes: Iterable[int]) -> Iterator[list[str]]:
    subjects = [("C", kernel)] if kernel.COMPILED else []
    for name, functions in [*subjects, ("Python", table_py)]:
        for count in sizes:
            if functions is table_py and count > PYTHON_KEYS_MAX:
                continue
            for place in ("memory", "mapped files"):
                yield [f"{count:,} keys, {place}, {name}", *measure(count, place, functions)]


if __name__ == "__main__":
    main()
