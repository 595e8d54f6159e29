"""The generated messages and the codec beside kio, which nobody here wrote."""

import dataclasses
import datetime
import importlib
import io
import runpy
import struct
import typing
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.wire.codec import Malformed, read, write
from ottla.wire.messages import APIS
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.schema import Message, covers

ROOT = Path(__file__).parents[3]
CASES = [
    (api, part, version)
    for api in APIS.values()
    for part in ("request", "response")
    for version in range(api.version_min, api.version_max + 1)
]


def test_the_committed_messages_are_what_the_tool_writes(tmp_path):
    runpy.run_path(str(ROOT / "tools/messages.py"))["main"](tmp_path)
    committed = ROOT / "src/ottla/wire/messages"
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in committed.glob("*.py")}
    for made in tmp_path.iterdir():
        assert made.read_text() == (committed / made.name).read_text(), made.name


INTS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def values_of(kind: str, nullable: bool) -> st.SearchStrategy:
    """Values of a field, in our terms."""
    if kind in INTS:
        one = st.integers(-(2 ** INTS[kind]), 2 ** INTS[kind] - 1)
    else:
        one = {
            "uint16": st.integers(0, 65535),
            "bool": st.booleans(),
            "float64": st.floats(allow_nan=False),
            "string": st.text(max_size=200),
            "bytes": st.binary(max_size=200),
            "records": st.binary(max_size=200),
            "uuid": st.binary(min_size=16, max_size=16),
        }[kind]
    return st.none() | one if nullable else one


def instances(draw: typing.Any, cls: type[Message], version: int, theirs: type) -> Message:
    """A message with every field that the version has set at random."""
    message = cls()
    kinds = {f.name: f.metadata.get("kafka_type") for f in dataclasses.fields(theirs)}
    hints = typing.get_type_hints(theirs)
    for field in cls.FIELDS:
        if not covers(field.versions, version):
            continue
        name = field.name if field.name in kinds else field.name.removesuffix("_ms")
        nullable = covers(field.nullable, version) and not covers(field.tagged, version)
        if isinstance(field.kind, type):
            nested = inner(hints[name])
            if nullable and draw(st.booleans()):
                value: object = None
            elif field.array:
                value = [instances(draw, field.kind, version, nested) for _ in range(draw(st.integers(0, 2)))]
            else:
                value = instances(draw, field.kind, version, nested)
        else:
            one = values_of(field.kind, False)
            if kinds[name] == "error_code":
                one = st.sampled_from([code.value for code in ErrorCode])
            elif kinds[name] == "datetime_i64":
                one = st.integers(-1, 10**12)
            elif kinds[name] == "timedelta_i64":
                one = st.integers(-(10**12), 10**12)
            value = draw(st.lists(one, max_size=3) if field.array else one)
            if nullable and draw(st.booleans()):
                value = None
        setattr(message, field.name, value)
    return message


def inner(hint: typing.Any) -> typing.Any:
    for arg in typing.get_args(hint):
        if arg not in (type(None), ...):
            return inner(arg)
    return hint


def as_theirs(ours: Message, version: int, theirs: type) -> typing.Any:
    """Our message as an instance of kio's class."""
    hints = typing.get_type_hints(theirs)
    values = {}
    for field in dataclasses.fields(theirs):
        value = getattr(ours, field.name if field.name in ours.__slots__ else field.name + "_ms")
        nested = inner(hints[field.name])
        kind = field.metadata.get("kafka_type")
        if isinstance(value, Message):
            value = as_theirs(value, version, nested)
        elif isinstance(value, list):
            if kind is None:
                value = tuple(as_theirs(each, version, nested) for each in value)
            else:
                value = tuple(converted(kind, each) for each in value)
        else:
            value = converted(kind, value)
        values[field.name] = value
    return theirs(**values)


def converted(kind: str | None, value: typing.Any) -> typing.Any:
    if value is None:
        return None
    if kind == "uuid":
        return uuid.UUID(bytes=value) if value != bytes(16) else None
    if kind == "error_code":
        return ErrorCode(value)
    if kind and kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kind == "datetime_i64":
        if value == -1:
            return None
        return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=value)
    return value


@pytest.mark.parametrize("part", ["request", "response"])
@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_version_reads_and_writes_the_bytes_that_kio_does(api, part):
    ours = api.request() if part == "request" else api.response()

    @settings(
        max_examples=10,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data):
        version = data.draw(st.integers(api.version_min, api.version_max))
        module = importlib.import_module(f"kio.schema.{api.module}.v{version}.{part}")
        theirs = getattr(module, ours.__name__)
        message = instances(data.draw, ours, version, theirs)
        try:
            with io.BytesIO() as buffer:
                entity_writer(theirs)(buffer, as_theirs(message, version, theirs))
                expected = buffer.getvalue()
        except (TypeError, AttributeError):
            return  # kio cannot write a null datetime everywhere
        mine = bytes(write(message, version))
        assert mine == expected
        again, end = read(ours, version, mine)
        assert end == len(mine)
        assert again == message
        assert entity_reader(theirs)(mine, 0)[0] == as_theirs(message, version, theirs)

    check()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_bytes_are_a_message_or_malformed(data):
    api, part, version = data.draw(st.sampled_from(CASES))
    cls = api.request() if part == "request" else api.response()
    noise = data.draw(st.binary(max_size=300))
    try:
        message, end = read(cls, version, noise)
    except Malformed:
        return
    assert end <= len(noise)
    assert read(cls, version, bytes(write(message, version)))[0] == message


@pytest.mark.parametrize("version", range(7))
def test_no_version_takes_a_string_that_another_could_not_carry(version):
    """A group of such a name, made in a flexible version, would break every older listing of groups."""
    name = "g" * 0x8000
    flexible = version >= DescribeGroupsRequest.FLEXIBLE_FROM
    frame = bytearray(b"\x02" + b"\x81\x80\x02" if flexible else struct.pack(">iH", 1, 0x8000))
    frame += name.encode() + bytes(3)
    with pytest.raises(Malformed):
        read(DescribeGroupsRequest, version, bytes(frame))
    with pytest.raises((Malformed, struct.error)):
        write(DescribeGroupsRequest(groups=[name]), version)
    longest = DescribeGroupsRequest(groups=["g" * 0x7FFF])
    assert read(DescribeGroupsRequest, version, write(longest, version))[0].groups == longest.groups


@pytest.mark.parametrize("version", [0, 4])
def test_a_single_string_has_the_same_bound(version):
    with pytest.raises((Malformed, struct.error)):
        write(HeartbeatRequest(group_id="g" * 0x8000), version)
    written = write(HeartbeatRequest(group_id="g" * 0x7FFF), version)
    assert read(HeartbeatRequest, version, written)[0].group_id == "g" * 0x7FFF
    if version == 4:
        with pytest.raises(Malformed):
            read(HeartbeatRequest, version, b"\x81\x80\x02" + b"g" * 0x8000 + bytes(10))
