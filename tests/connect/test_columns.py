"""The converters' path for columns gives what the path for records gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect import schema as s
from ottla.connect.arrow import records_of, schema_of
from ottla.connect.converters.json import JsonConverter
from ottla.connect.converters.primitive import StringConverter
from ottla.connect.schema import Schema
from ottla.connect.sinks.file import _lines
from ottla.connect.spi import SinkBatch, SinkRecord, TopicPartition

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
