"""Streams and tables over topics, as Kafka Streams has them, on Spark through `ottla.pipelines`."""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla.streams.app import App as App
    from ottla.streams.driver import TestDriver as TestDriver
    from ottla.streams.dsl import hopping as hopping
    from ottla.streams.dsl import session as session
    from ottla.streams.dsl import sliding as sliding
    from ottla.streams.dsl import tumbling as tumbling
    from ottla.streams.dsl import within as within
    from ottla.streams.expressions import col as col
    from ottla.streams.json_serde import json as json
    from ottla.streams.processors import Context as Context
    from ottla.streams.processors import Processor as Processor
    from ottla.streams.processors import Record as Record
    from ottla.streams.processors import keyed_store as keyed_store
    from ottla.streams.processors import window_store as window_store
    from ottla.streams.reductions import avg as avg
    from ottla.streams.reductions import collect as collect
    from ottla.streams.reductions import count as count
    from ottla.streams.reductions import first as first
    from ottla.streams.reductions import last as last
    from ottla.streams.reductions import max as max
    from ottla.streams.reductions import min as min
    from ottla.streams.reductions import sum as sum
    from ottla.streams.registry_serde import avro as avro
    from ottla.streams.registry_serde import json_schema as json_schema
    from ottla.streams.registry_serde import protobuf as protobuf
    from ottla.streams.serdes import Windowed as Windowed
    from ottla.streams.serdes import bytes_ as bytes_
    from ottla.streams.serdes import float64 as float64
    from ottla.streams.serdes import int32 as int32
    from ottla.streams.serdes import int64 as int64
    from ottla.streams.serdes import string as string

_HOMES = {
    "window_store": "ottla.streams.processors",
    "keyed_store": "ottla.streams.processors",
    "Record": "ottla.streams.processors",
    "Processor": "ottla.streams.processors",
    "Context": "ottla.streams.processors",
    "App": "ottla.streams.app",
    "TestDriver": "ottla.streams.driver",
    "Windowed": "ottla.streams.serdes",
    "avg": "ottla.streams.reductions",
    "avro": "ottla.streams.registry_serde",
    "bytes_": "ottla.streams.serdes",
    "col": "ottla.streams.expressions",
    "collect": "ottla.streams.reductions",
    "count": "ottla.streams.reductions",
    "first": "ottla.streams.reductions",
    "float64": "ottla.streams.serdes",
    "hopping": "ottla.streams.dsl",
    "int32": "ottla.streams.serdes",
    "int64": "ottla.streams.serdes",
    "json": "ottla.streams.json_serde",
    "json_schema": "ottla.streams.registry_serde",
    "last": "ottla.streams.reductions",
    "max": "ottla.streams.reductions",
    "min": "ottla.streams.reductions",
    "protobuf": "ottla.streams.registry_serde",
    "session": "ottla.streams.dsl",
    "sliding": "ottla.streams.dsl",
    "string": "ottla.streams.serdes",
    "sum": "ottla.streams.reductions",
    "tumbling": "ottla.streams.dsl",
    "within": "ottla.streams.dsl",
}

__all__ = [
    "App",
    "Context",
    "Processor",
    "Record",
    "TestDriver",
    "Windowed",
    "avg",
    "avro",
    "bytes_",
    "col",
    "collect",
    "count",
    "first",
    "float64",
    "hopping",
    "int32",
    "int64",
    "json",
    "json_schema",
    "keyed_store",
    "last",
    "max",
    "min",
    "protobuf",
    "session",
    "sliding",
    "string",
    "sum",
    "tumbling",
    "window_store",
    "within",
]

__getattr__ = names_of(__name__, _HOMES)
