"""Arrow's functions, as `pyarrow.compute` has them, imported when the first is asked for: that takes as long as all of
pyarrow, and a topology of plain functions needs none in a test."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    function = globals()[name] = getattr(import_module("pyarrow.compute"), name)
    return function
