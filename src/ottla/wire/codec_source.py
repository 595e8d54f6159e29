"""Straight-line code that reads or writes one version of a message, compiled when it is first used.

There are three ways: all at once; all at once with a bound on the number of array elements; and in steps of about a
millisecond, as a generator.
"""

import struct
from collections.abc import Callable
from typing import Any

from ottla.errors import InvalidRequest
from ottla.ports import Buffer
from ottla.wire.gather import SPLICE_BYTES_MIN, Gather
from ottla.wire.schema import Field, Message, covers

Reader = Callable[..., Any]  # of (buffer, position), bounded and in steps also (count)
Writer = Callable[..., Any]  # of (message, into), bounded and in steps also (count)

FORMATS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}

AT_ONCE, BOUNDED, IN_STEPS = range(3)  # the ways to read and to write
STEP_ELEMENTS = 512  # about half a millisecond
STRING_BYTES_MAX = 0x7FFF  # in flexible versions too, as in Kafka: older versions must be able to carry it


class Malformed(InvalidRequest):
    """The bytes are not a message of this API and version."""

    code = InvalidRequest.code


class TooManyElements(Malformed):
    """There are more elements than may be read or written at once."""

    code = Malformed.code


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise Malformed("a varint is too large")
            return value, position
        shift += 7
        if shift > 28:
            raise Malformed("a varint is too long")


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def has_arrays(cls: type[Message], version: int) -> bool:
    return any(
        field.array or (isinstance(field.kind, type) and has_arrays(field.kind, version))
        for field in cls.FIELDS
        if covers(field.versions, version)
    )


def reader(cls: type[Message], version: int, way: int = AT_ONCE) -> Reader:
    read = _READERS.get((cls, version, way))
    if read is None:
        read = _READERS[cls, version, way] = _Source(cls, version, way).compile_reader()
    return read


def writer(cls: type[Message], version: int, way: int = AT_ONCE) -> Writer:
    write = _WRITERS.get((cls, version, way))
    if write is None:
        write = _WRITERS[cls, version, way] = _Source(cls, version, way).compile_writer()
    return write


_READERS: dict[tuple[type[Message], int, int], Reader] = {}
_WRITERS: dict[tuple[type[Message], int, int], Writer] = {}


class _Source:
    """Builds the Python source of one reader or writer."""

    def __init__(self, cls: type[Message], version: int, way: int) -> None:
        self.cls, self.version, self.way = cls, version, way
        self.arguments = "" if way == AT_ONCE else ", count"
        self.flexible = version >= cls.FLEXIBLE_FROM
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "uvarint": read_uvarint,
            "write_uvarint": write_uvarint,
            "Malformed": Malformed,
            "Gather": Gather,
            "SPLICE_BYTES_MIN": SPLICE_BYTES_MIN,
            "TooManyElements": TooManyElements,
            "STEP_ELEMENTS": STEP_ELEMENTS,
            "new": object.__new__,
            "pack": struct.pack,
            "unpack_from": struct.unpack_from,
            "Class": cls,
        }
        present = [field for field in cls.FIELDS if covers(field.versions, version)]
        self.tagged = sorted((f for f in present if covers(f.tagged, version)), key=lambda f: f.tag or 0)
        self.plain = [field for field in present if field not in self.tagged]
        self.absent = [field for field in cls.FIELDS if field not in self.plain]
        self.defaults: Any = cls() if self.absent else None

    # -- reading -------------------------------------------------------------------------------

    def compile_reader(self) -> Reader:
        self._line("o = new(Class)")
        for field in self.absent:
            self._line(f"o.{field.name} = {self._default(field)}")
        for run in _runs(self.plain):
            if _is_fixed(run[0]):
                self._read_fixed(run)
            else:
                self._read_value(run[0], f"o.{run[0].name}", 1)
        if self.flexible:
            self._read_tags()
        self._line("return o, p")
        return self._compile("b, p" + self.arguments)  # type: ignore[no-any-return]

    def _default(self, field: Field) -> str:
        value = getattr(self.defaults, field.name)
        if isinstance(value, list):
            return "[]"
        if isinstance(value, Message):
            return f"{self._name(type(value))}()"
        return repr(value)

    def _read_fixed(self, run: list[Field], indent: int = 1) -> None:
        layout = struct.Struct(">" + "".join(FORMATS[str(field.kind)] for field in run))
        targets = ", ".join(f"o.{field.name}" for field in run)
        self._line(f"{targets}, = {self._name(layout.unpack_from)}(b, p); p += {layout.size}", indent)

    def _read_value(self, field: Field, target: str, indent: int) -> None:
        nullable = covers(field.nullable, self.version)
        if field.array:
            self._read_length("i", indent, plus_one=self.flexible)
            self._null_or(target, field.name, nullable, indent)
            self._count_elements(indent + 1)
            if self._is_done_whole(field.kind):
                code = FORMATS[str(field.kind)]
                self._line(f"    {target} = list(unpack_from(f'>{{n}}{code}', b, p))", indent)
                self._line(f"    p += n * {struct.calcsize('>' + code)}", indent)
                return
            self._line(f"    {target} = items = []", indent)
            self._line("    for i in range(n):", indent)
            self._read_item(field.kind, indent + 2)
            self._line("        items.append(v)", indent)
            self._end_step(indent + 2)
        elif isinstance(field.kind, type):
            if nullable:
                self._line("p += 1", indent)
                self._line(f"if b[p - 1] > 127: {target} = None", indent)
                self._line(f"else: {target}, p = {self._read_by(field.kind)}", indent)
            else:
                self._line(f"{target}, p = {self._read_by(field.kind)}", indent)
        elif field.kind in FORMATS:
            unpack = self._name(struct.Struct(">" + FORMATS[field.kind]).unpack_from)
            self._line(
                f"{target}, = {unpack}(b, p); p += {struct.calcsize('>' + FORMATS[field.kind])}", indent
            )
        else:
            self._read_length("h" if field.kind == "string" else "i", indent, plus_one=self.flexible)
            self._null_or(target, field.name, nullable, indent)
            self._check_length(field.kind, indent + 1)
            self._line(f"    {target} = {_SLICES[field.kind]}; p += n", indent)

    def _is_done_whole(self, kind: str | type[Message]) -> bool:
        """Numbers one behind the other, unless others shall have their turn in between."""
        return self.way != IN_STEPS and not isinstance(kind, type) and len(FORMATS.get(kind, "")) == 1

    def _count_elements(self, indent: int) -> None:
        """Of an array of `n`. Elements of elements count too, so a step is over after so many of either."""
        if self.way == AT_ONCE:
            return
        self._line("count.left -= n", indent)
        self._line("if count.left < 0: raise TooManyElements('there are too many elements')", indent)
        if self.way == IN_STEPS:
            self._line("if count.left < count.step_at:", indent)
            self._line("    count.step_at = count.left - STEP_ELEMENTS", indent)
            self._line("    yield", indent)

    def _end_step(self, indent: int) -> None:
        """Inside of a long array."""
        if self.way == IN_STEPS:
            self._line(f"if i % {STEP_ELEMENTS} == {STEP_ELEMENTS - 1}: yield", indent)

    def _read_length(self, layout: str, indent: int, *, plus_one: bool) -> None:
        if plus_one:
            self._line("n = b[p]; p += 1", indent)
            self._line("if n > 127: n, p = uvarint(b, p - 1)", indent)
            self._line("n -= 1", indent)
        else:
            unpack = self._name(struct.Struct(">" + layout).unpack_from)
            self._line(f"n, = {unpack}(b, p); p += {struct.calcsize('>' + layout)}", indent)

    def _check_length(self, kind: str, indent: int) -> None:
        if self.flexible and kind == "string":
            self._line(
                f"if n > {STRING_BYTES_MAX}: raise Malformed('a string is longer than {STRING_BYTES_MAX} bytes')",
                indent,
            )

    def _null_or(self, target: str, name: str, nullable: bool, indent: int) -> None:
        if nullable:
            self._line(f"if n < 0: {target} = None", indent)
        else:
            self._line(f"if n < 0: raise Malformed('{name} may not be null')", indent)
        self._line("else:", indent)

    def _read_item(self, kind: str | type[Message], indent: int) -> None:
        if isinstance(kind, type):
            self._line(f"v, p = {self._read_by(kind)}", indent)
        elif kind in FORMATS:
            unpack = self._name(struct.Struct(">" + FORMATS[kind]).unpack_from)
            self._line(f"v, = {unpack}(b, p); p += {struct.calcsize('>' + FORMATS[kind])}", indent)
        else:
            # `n` is the loop's bound already taken by range(): it may be reused here.
            self._read_length("h" if kind == "string" else "i", indent, plus_one=self.flexible)
            self._line("if n < 0: raise Malformed('an array holds a null')", indent)
            self._check_length(kind, indent)
            self._line(f"v = {_SLICES[kind]}; p += n", indent)

    def _read_tags(self) -> None:
        self._line("tags = b[p]; p += 1")
        self._line("if tags:")
        self._line("    if tags > 127: tags, p = uvarint(b, p - 1)")
        if self.way != AT_ONCE:
            self._line("    count.left -= tags")
            self._line("    if count.left < 0: raise TooManyElements('there are too many tagged fields')")
        self._line("    for _ in range(tags):")
        self._line("        tag, p = uvarint(b, p)")
        self._line("        size, p = uvarint(b, p)")
        self._line("        end = p + size")
        for field in self.tagged:
            self._line(f"        if tag == {field.tag}:")
            self._read_value(field, f"o.{field.name}", 4)
        self._line("        if p > end: raise Malformed('a tagged field is longer than it says')")
        self._line("        p = end")

    # -- writing -------------------------------------------------------------------------------

    def compile_writer(self) -> Writer:
        for run in _runs(self.plain):
            if _is_fixed(run[0]):
                pack = self._name(struct.Struct(">" + "".join(FORMATS[str(f.kind)] for f in run)).pack)
                self._line(f"out += {pack}({', '.join(f'o.{f.name}' for f in run)})")
            else:
                self._write_value(run[0], f"o.{run[0].name}", 1)
        if self.flexible:
            self._write_tags()
        self._line("pass")
        return self._compile("o, out" + self.arguments)  # type: ignore[no-any-return]

    def _write_value(self, field: Field, source: str, indent: int) -> None:
        nullable = covers(field.nullable, self.version)
        self._line(f"v = {source}", indent)
        if nullable and isinstance(field.kind, type) and not field.array:
            self._line("if v is None: out.append(255)", indent)
            self._line(f"else: out.append(1); {self._write_by(field.kind)}", indent)
            return
        if nullable:
            layout = "h" if field.kind == "string" and not field.array else "i"
            null = b"\x00" if self.flexible else struct.pack(">" + layout, -1)
            self._line(f"if v is None: out += {null!r}", indent)
            self._line("else:", indent)
            indent += 1
        if field.array:
            self._write_length("i", indent)
            if self.way != AT_ONCE:
                self._line("n = len(v)", indent)
            self._count_elements(indent)
            if self._is_done_whole(field.kind):
                self._line(f"out += pack(f'>{{len(v)}}{FORMATS[str(field.kind)]}', *v)", indent)
                return
            self._line("for i, v in enumerate(v):" if self.way == IN_STEPS else "for v in v:", indent)
            self._write_item(field.kind, indent + 1)
            self._end_step(indent + 1)
        else:
            self._write_item(field.kind, indent)

    def _write_item(self, kind: str | type[Message], indent: int) -> None:
        if isinstance(kind, type):
            self._line(self._write_by(kind), indent)
        elif kind in FORMATS:
            self._line(f"out += {self._name(struct.Struct('>' + FORMATS[kind]).pack)}(v)", indent)
        elif kind == "records":
            self._write_length("i", indent)
            self._line("if type(out) is Gather and len(v) > SPLICE_BYTES_MIN: out.splice(v)", indent)
            self._line("else: out += v", indent)
        else:
            if kind == "string":
                self._line("v = v.encode()", indent)
                self._check_written(indent)
            self._write_length("h" if kind == "string" else "i", indent)
            self._line("out += v", indent)

    def _check_written(self, indent: int) -> None:
        if self.flexible:
            self._line(
                f"if len(v) > {STRING_BYTES_MAX}: "
                f"raise Malformed('a string is longer than {STRING_BYTES_MAX} bytes')",
                indent,
            )

    def _write_length(self, layout: str, indent: int) -> None:
        if self.flexible:
            self._line("n = len(v) + 1", indent)
            self._line("if n < 128: out.append(n)", indent)
            self._line("else: write_uvarint(out, n)", indent)
        else:
            self._line(f"out += {self._name(struct.Struct('>' + layout).pack)}(len(v))", indent)

    def _write_tags(self) -> None:
        if not self.tagged:
            self._line("out.append(0)")
            return
        self._line("whole, tags = out, []")
        for field in self.tagged:
            self._line(f"if {self._differs(field)}:")
            self._line("    out = bytearray()")
            self._write_value(field, f"o.{field.name}", 2)
            self._line(f"    tags.append(({field.tag}, out))")
        self._line("out = whole")
        self._line("write_uvarint(out, len(tags))")
        self._line("for tag, data in tags:")
        self._line("    write_uvarint(out, tag); write_uvarint(out, len(data)); out += data")

    def _differs(self, field: Field) -> str:
        """Whether a value is not its default; a struct's fields one by one, which is quicker than `__eq__`."""
        default = getattr(self.defaults, field.name)
        if not isinstance(default, Message) or any(isinstance(f.kind, type) for f in default.FIELDS):
            return f"o.{field.name} != {self._name(default)}"
        compared = [
            f"o.{field.name}.{f.name} != {self._name(getattr(default, f.name))}" for f in default.FIELDS
        ]
        return " or ".join(compared)

    # -- source --------------------------------------------------------------------------------

    def _line(self, text: str, indent: int = 1) -> None:
        self.lines.append("    " * indent + text)

    def _name(self, value: Any) -> str:
        """A name under which the compiled code finds the value."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _read_by(self, kind: type[Message]) -> str:
        name = self._name(reader(kind, self.version, self._way_of(kind)))
        return self._stepping(kind, f"{name}(b, p{self.arguments})")

    def _write_by(self, kind: type[Message]) -> str:
        name = self._name(writer(kind, self.version, self._way_of(kind)))
        return self._stepping(kind, f"{name}(v, out{self.arguments})")

    def _way_of(self, kind: type[Message]) -> int:
        """A message without arrays has no steps."""
        return BOUNDED if self.way == IN_STEPS and not has_arrays(kind, self.version) else self.way

    def _stepping(self, kind: type[Message], call: str) -> str:
        return f"(yield from {call})" if self.way == IN_STEPS and has_arrays(kind, self.version) else call

    def _compile(self, arguments: str) -> Any:
        source = f"def run({arguments}):\n" + "\n".join(self.lines)
        exec(compile(source, f"<{self.cls.__name__} v{self.version}>", "exec"), self.names)
        return self.names["run"]


_SLICES = {
    "string": "str(b[p:p + n], 'utf-8')",
    "bytes": "bytes(b[p:p + n])",
    "records": "memoryview(b)[p:p + n]",
}


def _is_fixed(field: Field) -> bool:
    return not field.array and isinstance(field.kind, str) and field.kind in FORMATS


def _runs(fields: list[Field]) -> list[list[Field]]:
    """Neighbours of fixed size share one struct; anything else stands alone."""
    runs: list[list[Field]] = []
    for field in fields:
        if runs and _is_fixed(field) and _is_fixed(runs[-1][0]):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs
