"""Avro in Spark: our source with a registry beside Spark's own source and `from_avro`, which runs in the JVM.

    python -m bench.registry_spark [--records 1000000] [--avro-version 4.0.1]

Both read the same topic of an Ottla broker in one session and add up a field. `from_avro` knows no registry: it gets
the schema as a text, and the value without its first five bytes. The jar `spark-avro` comes from Maven, for this only.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from ottla.client.columnar import ColumnarProducer
from ottla.serialization import RegistryClient
from ottla.serialization.framing import with_id
from ottla.testing.registry import BrokerRegistry
from tests.oracle.ottla import Ottla
from tests.spark import jvm

PARTITIONS, ROUNDS, DISTINCT = 4, 3, 50_000
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "device", "type": "string"},
    {"name": "pulse", "type": "int"},
    {"name": "temperature", "type": "double"},
    {"name": "ok", "type": "boolean"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "note", "type": ["null", "string"], "default": None},
]
SCHEMA = json.dumps({"type": "record", "name": "Reading", "fields": FIELDS})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--avro-version", default="4.0.1")
    options = parser.parse_args()
    from ottla.spark import session

    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder, Ottla() as ottla:
        jars = f"{jvm.jars()},{avro_jar(options.avro_version, folder)}"
        spark = session(cores=2, settings={"spark.jars": jars}, archive=False)
        spark.sparkContext.setLogLevel("OFF")
        registry = BrokerRegistry({"bootstrap.servers": ottla.bootstrap})
        fill(ottla.bootstrap, registry.address, options.records)
        compare(spark, ottla.bootstrap, registry.address, options.records)
        spark.stop()
        registry.stop()


def avro_jar(version: str, folder: str) -> str:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact=org.apache.spark:spark-avro_2.13:{version}"]
    subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True, timeout=300)
    return str(next(Path(folder).glob("spark-avro*.jar")))


def fill(bootstrap: str, registry: str, records: int) -> None:
    from bench.measure import make_topic

    make_topic(bootstrap, "readings", PARTITIONS)
    schema_id = RegistryClient(registry).register("readings-value", SCHEMA).schema_id
    schema = fastavro.parse_schema(json.loads(SCHEMA))
    values = [with_id(schema_id, _encoded(schema, number)) for number in range(min(records, DISTINCT))]
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    with ColumnarProducer({"bootstrap.servers": bootstrap}) as producer:
        for first in range(0, records, DISTINCT):
            producer.write(rows.slice(0, min(DISTINCT, records - first)), "readings")
        producer.flush()


def _encoded(schema: Any, number: int) -> bytes:
    out = io.BytesIO()
    value = {"id": number, "device": f"device-{number % 100}", "pulse": 60 + number % 40, "note": None}
    value |= {"temperature": 36.0 + number / 1e5, "ok": True, "at": 1_700_000_000_000_000 + number}
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def compare(spark: Any, bootstrap: str, registry: str, records: int) -> None:
    def source(name: str) -> Any:
        reader = spark.read.format(name).option("kafka.bootstrap.servers", bootstrap)
        return reader.option("subscribe", "readings")

    def ours() -> Any:
        return source("ottla").options(valueFormat="avro", registry=registry, columns="value").load()

    def of_jvm() -> Any:
        from pyspark.sql.avro.functions import from_avro
        from pyspark.sql.functions import expr

        payload = expr("substring(value, 6, length(value) - 5)")
        return source("kafka").load().select(from_avro(payload, SCHEMA).alias("value"))

    peers: dict[str, Callable[[], Any]] = {"ours": ours, "from_avro (JVM)": of_jvm}
    rates: dict[str, list[float]] = {name: [] for name in peers}
    for turn in range(ROUNDS + 1):  # the first is for the JVM's compiler
        for name, frame in peers.items():
            began = time.perf_counter()
            row = frame().selectExpr("count(*) n", "sum(value.pulse) s", "max(value.at) t").first()
            took = time.perf_counter() - began
            assert row.n == records, row
            if turn:
                rates[name].append(records / took)
    medians = {name: statistics.median(measured) for name, measured in rates.items()}
    for name, rate in medians.items():
        print(f"| Avro in Spark, 7 fields: {name:<17} | {rate / 1e6:>6.2f} | M records a second |")
    print(f"| ratio | {medians['ours'] / medians['from_avro (JVM)']:.2f} |")


if __name__ == "__main__":
    main()
