"""Streams and tables over topics, as Kafka Streams has them, on Spark through `ottla.pipelines`."""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla.streams.app import App as App
    from ottla.streams.driver import TestDriver as TestDriver
    from ottla.streams.dsl import hopping as hopping
    from ottla.streams.dsl import tumbling as tumbling
    from ottla.streams.expressions import col as col
    from ottla.streams.processors import Context as Context
    from ottla.streams.processors import Processor as Processor
    from ottla.streams.processors import Record as Record
    from ottla.streams.processors import keyed_store as keyed_store
    from ottla.streams.processors import window_store as window_store
    from ottla.streams.serdes import bytes_ as bytes_
    from ottla.streams.serdes import float64 as float64
    from ottla.streams.serdes import int32 as int32
    from ottla.streams.serdes import int64 as int64
    from ottla.streams.serdes import json as json
    from ottla.streams.serdes import string as string

_HOMES = {
    "window_store": "ottla.streams.processors",
    "keyed_store": "ottla.streams.processors",
    "Record": "ottla.streams.processors",
    "Processor": "ottla.streams.processors",
    "Context": "ottla.streams.processors",
    "App": "ottla.streams.app",
    "TestDriver": "ottla.streams.driver",
    "bytes_": "ottla.streams.serdes",
    "col": "ottla.streams.expressions",
    "float64": "ottla.streams.serdes",
    "hopping": "ottla.streams.dsl",
    "int32": "ottla.streams.serdes",
    "int64": "ottla.streams.serdes",
    "json": "ottla.streams.serdes",
    "string": "ottla.streams.serdes",
    "tumbling": "ottla.streams.dsl",
}

__all__ = [
    "App",
    "Context",
    "Processor",
    "Record",
    "TestDriver",
    "bytes_",
    "col",
    "float64",
    "hopping",
    "int32",
    "int64",
    "json",
    "keyed_store",
    "string",
    "tumbling",
    "window_store",
]

__getattr__ = names_of(__name__, _HOMES)
