"""The table's inner loops: in C where that could be built, else in Python, tested equal."""

try:
    from ottla.pipelines.state._table import assign, delete, find, gather, measure, pack, put, rehash, split

    COMPILED = True
except ImportError:  # no compiler when this was installed
    from ottla.pipelines.state.table_py import (  # type: ignore[assignment,unused-ignore]
        assign,
        delete,
        find,
        gather,
        measure,
        pack,
        put,
        rehash,
        split,
    )

    COMPILED = False

__all__ = ["COMPILED", "assign", "delete", "find", "gather", "measure", "pack", "put", "rehash", "split"]
