"""`ottla homecare table`: the billing totals as a Parquet table, derived from `billing-total` and never the truth.

The table and the offsets it was read up to are one file, put in place by one rename: after a crash both are old or
both are new, so nothing is counted twice and nothing is skipped. `--rebuild` forgets the file and reads all.
"""

import argparse
import json
import os
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.parquet as parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import TopicPartition
from ottla.homecare import topics
from ottla.homecare.billing import parse_totals
from ottla.homecare.client import Client, add_client, client_of
from ottla.homecare.reading import Ends, edges, read_ranges

FILE = "totals.parquet"
_OFFSETS = b"ottla.offsets"
_SCHEMA = pa.schema(
    [("patient", pa.string()), ("month", pa.string()), ("services", pa.int64()), ("cents", pa.int64())]
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client(parser)
    parser.add_argument(
        "--folder", default="billing-table", help="where the table is (default: billing-table)"
    )
    parser.add_argument("--rebuild", action="store_true", help="forget the table and read everything again")


def run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    if arguments.rebuild:
        (folder / FILE).unlink(missing_ok=True)
    table = update(client_of(arguments), folder)
    by_month = table.group_by("month").aggregate(
        [("patient", "count"), ("services", "sum"), ("cents", "sum")]
    )
    for row in by_month.sort_by("month").to_pylist():
        euros = row["cents_sum"] / 100
        print(
            f"{row['month']}: {row['patient_count']:,} patients, {row['services_sum']:,} services, {euros:,.2f}"
        )
    print(f"{folder / FILE}: {table.num_rows:,} rows")
    return 0


def update(client: Client, folder: Path) -> pa.Table:
    """Brings the table up to what is committed now; the table."""
    table, read = load(folder)
    begins, ends = edges(client, topics.TOTAL)
    begins |= {where: at for where, at in read.items() if at > begins.get(where, 0)}
    changes = [parse_totals(rows) for rows in read_ranges(client, begins, ends)]
    if changes:
        table = merge(table, pa.concat_tables(changes))
    if changes or ends != read:
        save(folder, table, ends)
    return table


def merge(table: pa.Table, changes: pa.Table) -> pa.Table:
    """The last total of each key wins. `changes` has columns key, services, cents, in order for each key."""
    place = pa.array(range(changes.num_rows), pa.int64())
    newest = changes.append_column("place", place).group_by("key").aggregate([("place", "max")])
    changes = changes.take(newest["place_max"])
    parts = pc.split_pattern(changes["key"], "/", max_splits=1, reverse=True)
    columns = [pc.list_element(parts, 0), pc.list_element(parts, 1), changes["services"], changes["cents"]]
    fresh = pa.Table.from_arrays(columns, schema=_SCHEMA)
    kept = table.join(fresh.select(["patient", "month"]), ["patient", "month"], join_type="left anti")
    return pa.concat_tables([kept.select(_SCHEMA.names), fresh]).sort_by(
        [("patient", "ascending"), ("month", "ascending")]
    )


def load(folder: Path) -> tuple[pa.Table, Ends]:
    """The table as it was saved, and how far it was read; empty if there is none."""
    file = folder / FILE
    if not file.exists():
        return _SCHEMA.empty_table(), {}
    table = parquet.read_table(file)
    offsets = json.loads(table.schema.metadata[_OFFSETS])
    offsets = {TopicPartition(topics.TOTAL, int(partition)): offset for partition, offset in offsets.items()}
    return table.replace_schema_metadata(None), offsets


def save(folder: Path, table: pa.Table, read: Ends) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    offsets = json.dumps({str(where.partition): offset for where, offset in sorted(read.items())})
    waiting = folder / f".{FILE}.{os.getpid()}"
    parquet.write_table(table.replace_schema_metadata({_OFFSETS: offsets.encode()}), waiting)
    with waiting.open("rb+") as handle:
        os.fsync(handle.fileno())
    waiting.replace(folder / FILE)


def as_totals(table: pa.Table) -> dict[str, tuple[int, int]]:
    """By "patient/month", to compare with the topic."""
    return {f"{r['patient']}/{r['month']}": (r["services"], r["cents"]) for r in table.to_pylist()}
