"""Spark's daemon of Python workers, with everything imported before it forks: workers share the pages, 60 MB each.

PySpark imports after the fork because Arrow and numpy start threads, and a fork with threads may hang. They can be told
not to; if a thread runs all the same, PySpark's own daemon takes over.
"""

import contextlib
import gc
import os
import sys
from importlib import import_module
from pathlib import Path

_WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_IMPORTED = (
    "pandas",  # PySpark wants it for tasks that exchange Arrow
    "pyarrow.compute",
    "pyarrow.json",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "ottla.spark.clients",
    "ottla.client.columnar",
    "ottla.client.exactly_once.owner",
    "ottla.spark.commits",
    "ottla.spark.rows",
    "ottla.spark.sink",
    "ottla.spark.source",
)


def preload() -> bool:
    """Imports what workers need; whether it is safe to fork now."""
    for name, value in _WITHOUT_THREADS.items():
        os.environ.setdefault(name, value)
    for module in _IMPORTED:
        with contextlib.suppress(ImportError):
            import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a worker would write to the shared pages
    return _threads() == 1


def _threads() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0


def main() -> None:
    if not preload():
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
