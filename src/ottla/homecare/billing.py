"""Billing: each service counted once for its patient and month, although devices repeat what they said.

Every device numbers its services. For each device the highest number seen and a window of the 64 below it tell what
is new, in 16 bytes: a repetition, or a number that comes late, is recognised among the last 64; what is older counts
as a repetition. `billing-total` holds the totals themselves, so they are loaded from where everybody reads them.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare.store import Store
from ottla.homecare.topics import TOTAL
from ottla.spark.json_values import JsonValues

WINDOW = 64
_SERVICE = pa.struct(
    [("device", pa.string()), ("number", pa.int64()), ("cents", pa.int64()), ("rendered", pa.int64())]
)
_SCHEMA = pa.schema(
    [("total", pa.string()), ("device", pa.string()), ("number", pa.int64()), ("cents", pa.int64())]
)


def services(records: Iterable[pa.RecordBatch]) -> pa.Table:
    """In a task: columns total (patient/month), device, number, cents; without the repetitions in the batch."""
    json_values = JsonValues(_SERVICE)
    batches = []
    for rows in records:
        device, number, cents, rendered = json_values.decode(rows).flatten()
        month = pc.strftime(rendered.cast(pa.timestamp("ms", tz="UTC")), "%Y-%m")
        total = pc.binary_join_element_wise(rows.column("key").cast(pa.string()), month, "/")
        found = pa.RecordBatch.from_arrays([total, device, number, cents], schema=_SCHEMA)
        batches.append(found.filter(pc.and_(total.is_valid(), pc.and_(device.is_valid(), number.is_valid()))))
    table = pa.Table.from_batches(batches, _SCHEMA)
    once = table.group_by(["device", "number"]).aggregate([("total", "min"), ("cents", "min")])
    return once.select(["total_min", "device", "number", "cents_min"]).rename_columns(_SCHEMA.names)


class Billing:
    def __init__(self) -> None:
        self.devices = Store({"seen": {"top": np.int64, "below": np.uint64}})
        self.totals = Store({"sum": {"services": np.int64, "cents": np.int64}})
        self.repeated = 0

    @property
    def cents(self) -> int:
        return int(self.totals["cents"].sum())

    def step(self, found: pa.Table) -> pa.Table:
        """Takes the services of a micro-batch; gives the totals that changed, as they are now: columns key
        (patient/month), services, cents."""
        found = _once(found)
        rows = self.devices.rows(found["device"].combine_chunks())
        number = found["number"].to_numpy()
        new = self._is_new(rows, number)
        self.repeated += int((~new).sum())
        self._note(rows[new], number[new])
        counted = found.filter(pa.array(new))
        places = self.totals.rows(counted["total"].combine_chunks())
        np.add.at(self.totals["services"], places, 1)
        np.add.at(self.totals["cents"], places, counted["cents"].to_numpy())
        changed = np.unique(places)
        columns = {name: pa.array(self.totals[name][changed]) for name in ("services", "cents")}
        return pa.table({"key": self.totals.ids(changed), **columns})

    def _is_new(self, rows: Any, number: Any) -> Any:
        behind = self.devices["top"][rows] - number
        bit = np.clip(behind, 0, WINDOW - 1).astype(np.uint64)
        seen = (self.devices["below"][rows] >> bit) & np.uint64(1) == 1
        return (behind < 0) | ((behind < WINDOW) & ~seen)

    def _note(self, rows: Any, number: Any) -> None:
        """Moves each device's window up to its highest number and marks what came."""
        top, below = self.devices["top"], self.devices["below"]
        known = np.unique(rows)
        before = top[known]
        np.maximum.at(top, rows, number)
        moved = top[known] - before
        kept = below[known] << np.clip(moved, 0, WINDOW - 1).astype(np.uint64)
        below[known] = np.where(moved < WINDOW, kept, 0)
        behind = top[rows] - number
        near = behind < WINDOW
        np.bitwise_or.at(below, rows[near], np.uint64(1) << behind[near].astype(np.uint64))
        self.devices.touch("seen", known)

    # -- saving and loading ------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, bytes]]:
        return list(self.devices.changes())

    def load(self, saved: dict[str, bytes]) -> None:
        for key in Store.order(list(saved)):
            self.devices.load(key, saved[key])

    def load_totals(self, latest: pa.Table) -> None:
        """From `billing-total` itself: columns key, services, cents."""
        rows = self.totals.rows(latest["key"].combine_chunks())
        self.totals["services"][rows] = latest["services"].to_numpy()
        self.totals["cents"][rows] = latest["cents"].to_numpy()


def _once(found: pa.Table) -> pa.Table:
    """Tasks leave out the repetitions they see; two tasks may see the same service."""
    grouped = found.group_by(["device", "number"]).aggregate([("total", "min"), ("cents", "min")])
    return grouped.select(["total_min", "device", "number", "cents_min"]).rename_columns(_SCHEMA.names)


def records(totals: pa.Table) -> tuple[str, pa.RecordBatch]:
    """As they are written to the topic."""
    services, cents = (totals[name].combine_chunks().cast(pa.string()) for name in ("services", "cents"))
    values = pc.binary_join_element_wise('{"services":', services, ',"cents":', cents, "}", "")
    keys = totals["key"].combine_chunks()
    return TOTAL, pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])


def parse_totals(rows: pa.RecordBatch) -> pa.Table:
    """Records of `billing-total` as columns key, services, cents."""
    values = JsonValues(pa.struct([("services", pa.int64()), ("cents", pa.int64())])).decode(rows)
    services, cents = values.flatten()
    keys = rows.column("key").cast(pa.string())
    return pa.table({"key": keys, "services": services, "cents": cents})
