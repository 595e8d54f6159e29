"""PySpark collects garbage after every task: with all that is imported, that takes longer than a short task."""

import gc
import sys

_modules = 0  # that were there when the collector was last told to leave them alone


def freeze() -> None:
    """Modules stay for good, so the collector need not look at them. Called in each of Spark's Python processes."""
    global _modules
    if len(sys.modules) > _modules:
        gc.collect()
        gc.freeze()
        _modules = len(sys.modules)
