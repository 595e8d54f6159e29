"""What touches every byte of every batch: in C where that could be built, else in Python, tested equal."""

try:
    from ottla.wire._kernel import (
        Gate,
        Lane,
        Receipt,
        Room,
        Rows,
        check,
        crc32c,
        encode,
        encode_columns,
        fill_columns,
        fill_headers,
        find_record,
        index,
        measure_columns,
        murmur2,
        outliers,
        partition_column,
        read_header,
        scan,
        strays,
        tuples,
        validate,
        walk,
    )

    COMPILED = True
except ImportError:  # no compiler when this was installed
    from ottla.wire.kernel_columns_py import (
        encode_columns,
        fill_columns,
        fill_headers,
        measure_columns,
        partition_column,
    )
    from ottla.wire.kernel_ids_py import strays
    from ottla.wire.kernel_py import (
        check,
        crc32c,
        encode,
        find_record,
        index,
        murmur2,
        outliers,
        read_header,
        scan,
        validate,
        walk,
    )
    from ottla.wire.kernel_rows_py import Gate, Lane, Receipt, Room, Rows, tuples

    COMPILED = False

from ottla.wire.corruption import BadRecord
from ottla.wire.layout import HEADER_BYTES, INDEX_FIELDS

__all__ = [
    "COMPILED",
    "HEADER_BYTES",
    "INDEX_FIELDS",
    "BadRecord",
    "Gate",
    "Lane",
    "Receipt",
    "Room",
    "Rows",
    "check",
    "crc32c",
    "encode",
    "encode_columns",
    "fill_columns",
    "fill_headers",
    "find_record",
    "index",
    "measure_columns",
    "murmur2",
    "outliers",
    "partition_column",
    "read_header",
    "scan",
    "strays",
    "tuples",
    "validate",
    "walk",
]
