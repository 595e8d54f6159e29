"""The billing pipeline: each service counted once for its patient and month, although devices repeat what they said.

Every device numbers its services. For each device the highest number seen and a window of the 64 below it tell what
is new, in 16 bytes: a repetition, or a number that comes late, is recognised among the last 64; what is older counts
as a repetition.
"""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare.topics import TOTAL
from ottla.pipelines import Operator, Step, StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.spark.json_values import JsonValues

NUMBERS = StoreSpec("numbers", (("top", "int64"), ("below", "int64")))  # by device; `below` are bits
TOTALS = StoreSpec("totals", (("services", "int64"), ("cents", "int64")))  # by patient/month
WINDOW = 64
_SERVICE = pa.struct(
    [("device", pa.string()), ("number", pa.int64()), ("cents", pa.int64()), ("rendered", pa.int64())]
)
_TOTAL = pa.struct([("services", pa.int64()), ("cents", pa.int64())])


class Billing(Operator):
    def __init__(self) -> None:
        self._json = JsonValues(_SERVICE)
        self._repeated = 0

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        numbers, totals = step.stores["numbers"], step.stores["totals"]
        billed = services(rows, self._json)
        devices = numbers.rows(billed["device"].combine_chunks())
        number = billed["number"].to_numpy()
        new = _is_new(numbers, devices, number)
        _note(numbers, devices[new], number[new])
        counted = billed.filter(pa.array(new))
        places = totals.rows(counted["total"].combine_chunks())
        np.add.at(totals["services"], places, 1)
        np.add.at(totals["cents"], places, counted["cents"].to_numpy())
        changed = totals.touch(places)
        step.emit(TOTAL, records(totals, changed))
        self._repeated += rows.num_rows - len(counted)

    def advance(self, step: Step) -> None:
        step.show(cents=int(step.stores["totals"]["cents"].sum()), repeated=self._repeated)


def services(rows: pa.RecordBatch, json_values: JsonValues) -> pa.Table:
    """Columns total (patient/month), device, number, cents; each service once."""
    device, number, cents, rendered = json_values.decode(rows).flatten()
    month = pc.strftime(rendered.cast(pa.timestamp("ms", tz="UTC")), "%Y-%m")
    total = pc.binary_join_element_wise(rows.column("key").cast(pa.string()), month, "/")
    table = pa.table({"total": total, "device": device, "number": number, "cents": cents})
    table = table.drop_null()
    grouped = table.group_by(["device", "number"]).aggregate([("total", "min"), ("cents", "min")])
    return grouped.select(["total_min", "device", "number", "cents_min"]).rename_columns(table.column_names)


def _is_new(numbers: KeyedStore, devices: Any, number: Any) -> Any:
    behind = numbers["top"][devices] - number
    bit = np.clip(behind, 0, WINDOW - 1).astype(np.uint64)
    is_counted = (numbers["below"].view(np.uint64)[devices] >> bit) & np.uint64(1) == 1
    return (behind < 0) | ((behind < WINDOW) & ~is_counted)


def _note(numbers: KeyedStore, devices: Any, number: Any) -> None:
    """Moves each device's window up to its highest number and marks what came."""
    top, below = numbers["top"], numbers["below"].view(np.uint64)
    known = numbers.touch(devices)
    before = top[known]
    np.maximum.at(top, devices, number)
    moved = top[known] - before
    shifted = below[known] << np.clip(moved, 0, WINDOW - 1).astype(np.uint64)
    below[known] = np.where(moved < WINDOW, shifted, 0)
    behind = top[devices] - number
    near = behind < WINDOW
    np.bitwise_or.at(below, devices[near], np.uint64(1) << behind[near].astype(np.uint64))


def records(totals: KeyedStore, rows: Any) -> pa.RecordBatch:
    """As they are written to the topic."""
    services, cents = (pa.array(totals[name][rows]).cast(pa.string()) for name in ("services", "cents"))
    values = pc.binary_join_element_wise('{"services":', services, ',"cents":', cents, "}", "")
    return pa.RecordBatch.from_arrays([totals.keys(rows), values.cast(pa.binary())], names=["key", "value"])


def parse_totals(rows: pa.RecordBatch) -> pa.Table:
    """Records of `billing-total` as columns key, services, cents."""
    services, cents = JsonValues(_TOTAL).decode(rows).flatten()
    return pa.table({"key": rows.column("key").cast(pa.string()), "services": services, "cents": cents})
