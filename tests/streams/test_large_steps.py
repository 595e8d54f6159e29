"""Steps with many keys and records: numbers of keys times numbers of records do not fit into 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.pipelines.operators import Step
from ottla.pipelines.topology import TaskId
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.lookups import Lookup, rows_as_of
from ottla.streams.serdes import int64, objects

KEYS = 70_000


class Final(Lookup):
    """A table as it is at the end of the step: each key's value is the key."""

    def get(self, step: Step, cells: pa.Array, keys: Any) -> tuple[Any, Any]:
        return keys, np.zeros(len(keys), np.int64)


def test_a_join_sees_the_row_of_its_moment_in_a_step_of_many_keys() -> None:
    keys = np.arange(KEYS)
    changes = framed(pa.array(keys), keys.tolist(), keys, order=keys + KEYS, olds=(-keys).tolist())
    before_and_after = np.concatenate([keys, keys])
    order = np.concatenate([keys, keys + 2 * KEYS])
    asked = framed(pa.array(before_and_after), before_and_after.tolist(), order, order=order)
    step = Step(TaskId("0", 0), {}, frozenset(), -1, 0, {})
    rows, _ = rows_as_of(Final(), int64, step, asked, changes)
    assert objects(rows) == [*(-keys).tolist(), *keys.tolist()]
