"""What a page shows, as plain values: HTML, JSON and CSV are three renderings of the same `Page`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Points = Sequence[tuple[float, float]]  # (seconds since 1970, value)


@dataclass(frozen=True, slots=True)
class Cell:
    """`value` is for programs; `text`, its tone and its link are for people."""

    value: object = None
    text: str | None = None
    href: str | None = None
    tone: str = ""  # good, warn, bad, quiet, accent
    unit: str = ""
    points: tuple[float, ...] | None = None  # a sparkline
    form: "Form | None" = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    label: str
    kind: str = "text"  # text, number, spark, state, code, action
    priority: int = 1  # 2 is hidden on a telephone, 3 on a small window too
    sortable: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Table:
    key: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    empty: str = "Nothing here."
    sort: str = ""  # a column's key, with - in front for the largest first
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the few numbers on top of a page."""

    key: str
    label: str
    value: object
    text: str | None = None
    unit: str = ""
    tone: str = ""
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    key: str
    title: str
    series: Sequence[tuple[str, Points]]
    unit: str = ""  # "/s", "bytes/s", "" for plain numbers


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about the cluster or about the last change."""

    tone: str
    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Notices:
    key: str
    notices: Sequence[Notice]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Fields:
    key: str
    fields: Sequence[tuple[str, Cell]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    key: str
    label: str
    done: int
    total: int
    text: str
    stop: "Form | None" = None


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    label: str
    kind: str = "text"  # text, number, select, checkbox, textarea, hidden, password
    value: str = ""
    options: Sequence[tuple[str, str]] = ()
    hint: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """`action` names a change (`/do/ACTION`, posted with the viewer's token), or with `get` the page to go to."""

    action: str
    label: str
    inputs: Sequence[Input] = ()
    title: str = ""
    danger: bool = False
    get: bool = False
    folded: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A key, value or header as it was decoded."""

    kind: str  # none, json, text, hex (base64 in downloads), and the kinds of internal records
    text: str
    size: int
    data: object = None  # for JSON: the parsed value
    cut: bool = False
    masked: bool = False
    schema: str = ""  # the registered schema that it was decoded with
    trouble: str = ""  # why it was not decoded


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Part
    value: Part
    headers: Sequence[tuple[str, Part]]
    command: str = ""
    truncated: str = ""  # why records are missing: the last of a download that is not whole, and no record


@dataclass(frozen=True, slots=True)
class Messages:
    key: str
    messages: Sequence[Message]
    title: str = ""
    empty: str = "No records here."
    tail: bool = False  # new records are added on top while the page is open


@dataclass(frozen=True, slots=True)
class Moment:
    """An event of a timeline."""

    at_ms: int
    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    key: str
    moments: Sequence[Moment]
    title: str = ""
    empty: str = "Nothing has happened while the console was watching."


@dataclass(frozen=True, slots=True)
class Grid:
    """Many small states at one glance: the replicas of partitions, the devices of a ward."""

    key: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A text as it is: a schema, a trace, what has changed between two versions."""

    key: str
    text: str
    title: str = ""
    is_diff: bool = False


Block = Table | Chart | Notices | Fields | Progress | Form | Messages | Timeline | Grid | Text


@dataclass(frozen=True, slots=True)
class Filter:
    """The search box of a page: a GET form that keeps the page's other parameters."""

    value: str
    placeholder: str
    keep: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pager:
    """Links to the pages before and after."""

    text: str
    before: str | None = None
    after: str | None = None
    before_label: str = "Previous"
    after_label: str = "Next"


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    section: str  # which entry of the navigation is lit
    subtitle: str = ""
    figures: Sequence[Figure] = ()
    blocks: Sequence[Block] = ()
    tabs: Sequence[tuple[str, str, bool]] = ()  # label, address, whether it is this page
    crumbs: Sequence[tuple[str, str]] = ()
    filter: Filter | None = None
    pager: Pager | None = None
    links: Sequence[tuple[str, str]] = ()  # downloads and the like
    live: bool = True

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]
