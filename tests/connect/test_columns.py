"""The converters' path for columns gives what the path for records gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import schema as s
from ottla.connect.arrow import records_of, schema_of
from ottla.connect.converters.json import JsonConverter
from ottla.connect.converters.primitive import StringConverter
from ottla.connect.definitions import SOURCE_SETTINGS
from ottla.connect.schema import Schema
from ottla.connect.settings import Config
from ottla.connect.sinks.file import _lines
from ottla.connect.spi import Batch, SinkBatch, SinkRecord, TopicPartition
from ottla.connect.tasks.conversion import SourceConversion

CONVERTERS = (
    JsonConverter({}),
    JsonConverter({"schemas.enable": "false"}),
    StringConverter({}, is_key=False),
)
TEXTS = st.lists(st.text(alphabet=st.sampled_from('ab"\\\té\n{}\u2028😀 ')), min_size=1, max_size=6)


@given(TEXTS)
def test_a_column_of_texts_is_written_and_read_as_record_by_record(texts: list[str]) -> None:
    for converter in CONVERTERS:
        single = [converter.from_value("t", Schema(s.STRING), text) for text in texts]
        column = converter.from_column("t", pa.array(texts, pa.string()))
        assert column is None or column.to_pylist() == single
        back = converter.to_column("t", pa.array(single, pa.binary()))
        assert back is None or back.to_pylist() == texts


def test_plain_texts_do_take_the_path_for_columns() -> None:
    for converter in CONVERTERS:
        column = converter.from_column("t", pa.array(["plain", 'a "quoted" one', "tab\t"], pa.string()))
        assert column is not None
        assert converter.to_column("t", column.slice(0, 1)).to_pylist() == ["plain"]
    assert CONVERTERS[0].to_column("t", pa.array([b'{"schema":null,"payload":1}', b"x"], pa.binary())) is None


@given(st.lists(st.text(alphabet="ab é"), min_size=1, max_size=5), st.integers(0, 2))
def test_the_file_sink_writes_columns_as_records(texts: list[str], skip: int) -> None:
    where = TopicPartition("t", 0)
    records = [SinkRecord("t", 0, n, text, Schema(s.STRING)) for n, text in enumerate(texts)][skip:]
    column = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["value"]).slice(skip)
    by_record = _lines(SinkBatch(where, lambda: records, 0, 9, None))
    assert _lines(SinkBatch(where, lambda: records, 0, 9, column)) == by_record


STRUCT = pa.struct(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("home", pa.struct([pa.field("street", pa.string()), pa.field("old", pa.bool_())])),
        pa.field("weight", pa.float64()),
    ]
)
HOMES = st.fixed_dictionaries({"street": st.none() | st.text('ab"é\n', max_size=3), "old": st.booleans()})
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "name": st.none() | st.text('ab"\\\té', max_size=3),
            "home": st.none() | HOMES,
            "weight": st.floats(allow_nan=False) | st.none(),
        }
    ),
    min_size=1,
    max_size=4,
)
WITHOUT_WEIGHT: tuple[str, dict[str, str]] = (
    "ReplaceField$Value",
    {"exclude": "weight"},
)  # fractions are written one by one
CHAINS: dict[str, list[tuple[str, dict[str, str]]]] = {
    "nothing": [],
    "without": [("ReplaceField$Value", {"exclude": "weight,home", "renames": "name:called"})],
    "only": [
        ("ReplaceField$Value", {"include": "id"}),
        ("InsertField$Value", {"static.field": "from", "static.value": 'a"b'}),
    ],
    "topic": [WITHOUT_WEIGHT, ("InsertField$Value", {"topic.field": "where!", "timestamp.field": "at"})],
    "hidden": [WITHOUT_WEIGHT, ("MaskField$Value", {"fields": "id,name"})],
    "replaced": [WITHOUT_WEIGHT, ("MaskField$Value", {"fields": "name", "replacement": "***"})],
    "hidden weight": [("MaskField$Value", {"fields": "weight"})],
    "key": [("ValueToKey", {"fields": "name,id"}), WITHOUT_WEIGHT],
    "plain key": [("ValueToKey", {"fields": "id"}), ("ExtractField$Key", {"field": "id"})],
    "name": [("ExtractField$Value", {"field": "name"})],
    "street": [("ExtractField$Value", {"field": "home.street", "field.syntax.version": "V2"})],
    "flat": [("Flatten$Value", {"delimiter": "_"}), WITHOUT_WEIGHT],
    "hoisted": [WITHOUT_WEIGHT, ("HoistField$Value", {"field": "row"})],
    "hoisted key": [WITHOUT_WEIGHT, ("HoistField$Key", {"field": "k"})],
    "routed": [WITHOUT_WEIGHT, ("RegexRouter", {"regex": "(.)opic", "replacement": "$1"})],
    "titled": [WITHOUT_WEIGHT, ("SetSchemaMetadata$Value", {"schema.name": "Visit", "schema.version": "3"})],
    "dropped": [("Filter", {})],
    "cast": [("Cast$Value", {"spec": "id:string"})],
}  # fmt: skip


def conversion(chain: list[tuple[str, dict[str, str]]], **more: str) -> SourceConversion:
    config = {
        "name": "c",
        "connector.class": "folder",
        "transforms": ",".join(f"t{i}" for i in range(len(chain))),
        **more,
    }
    for i, (name, settings) in enumerate(chain):
        config[f"transforms.t{i}.type"] = f"org.apache.kafka.connect.transforms.{name}"
        config |= {f"transforms.t{i}.{key}": value for key, value in settings.items()}
    return SourceConversion(Config(config, SOURCE_SETTINGS))


def written(rows: list[tuple[str, pa.RecordBatch]]) -> list[tuple[str, bytes | None, bytes | None]]:
    return [(topic, row.get("key"), row.get("value")) for topic, batch in rows for row in batch.to_pylist()]


@given(ROWS, st.sampled_from(sorted(CHAINS)), st.sampled_from(["true", "false"]), st.booleans())
def test_transforms_of_columns_give_what_transforms_of_records_give(
    rows: list[dict[str, Any]], chain: str, schemas: str, with_home: bool
) -> None:
    if with_home:
        rows = [{**row, "home": row["home"] or {"street": "s", "old": True}} for row in rows]
    values = pa.RecordBatch.from_arrays([pa.array(rows, STRUCT)], names=["value"])
    made = conversion(CHAINS[chain], **{"value.converter.schemas.enable": schemas})
    columns = made._transformed_columns(Batch(values, {}, "topic"))
    if columns is not None:
        assert written([columns]) == written(made._from_records(records_of(values, "topic")))


def test_transforms_that_only_move_values_do_take_the_path_for_columns() -> None:
    rows = [{"id": 1, "name": None, "home": {"street": "s", "old": True}, "weight": None}]
    values = pa.RecordBatch.from_arrays([pa.array(rows, STRUCT)], names=["value"])
    taken = {
        name
        for name, chain in CHAINS.items()
        if conversion(chain)._transformed_columns(Batch(values, {}, "topic")) is not None
    }
    assert taken == {
        "without", "only", "topic", "hidden", "replaced", "key", "name", "street", "flat", "hoisted", "routed",
        "titled", "dropped",
    }  # fmt: skip


def test_arrows_types_become_connects_schemas() -> None:
    struct = pa.struct(
        [pa.field("id", pa.int64(), nullable=False), pa.field("tags", pa.map_(pa.string(), pa.int32()))]
    )
    schema = schema_of(struct, optional=False)
    assert schema is not None and [field.schema.type for field in schema.fields] == [s.INT64, s.MAP]
    assert not schema.fields[0].schema.optional and schema.fields[1].schema.optional
    rows = pa.RecordBatch.from_arrays([pa.array([{"id": 1, "tags": [("a", 2)]}], struct)], names=["value"])
    (record,) = records_of(rows, "t")
    assert record.value == {"id": 1, "tags": {"a": 2}} and record.topic == "t"
    with pytest.raises(Exception, match="no counterpart"):
        schema_of(pa.duration("s"))
