"""Readings of machines are buffered in a topic; Spark makes features of them, trains a model, scores what comes.

python learning_feed.py train --model model.json
python learning_feed.py score --model model.json --checkpoint ./checkpoint
"""

import argparse
import json
from pathlib import Path
from typing import Any

import ottla

READINGS, PREDICTIONS = "readings", "predictions"
SCHEMA = "machine string, batch int, temperature double, vibration double, failed boolean"
FEATURES = ("temperature_mean", "temperature_max", "vibration_mean", "vibration_std")


def reading(
    producer: ottla.Producer,
    machine: str,
    batch: int,
    temperature: float,
    vibration: float,
    failed: bool | None = None,
) -> None:
    """`failed` is known only for the past."""
    event = {
        "machine": machine,
        "batch": batch,
        "temperature": temperature,
        "vibration": vibration,
        "failed": failed,
    }
    producer.send(READINGS, json.dumps(event), key=machine)


def read(spark: Any, bootstrap: str) -> Any:
    """The buffer as a table: everything that retention has left."""
    from pyspark.sql.functions import col, from_json

    frame = (
        spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", READINGS)
    )
    return frame.load().select(from_json(col("value").cast("string"), SCHEMA).alias("r")).select("r.*")


def features(readings: Any) -> Any:
    """One row for each batch of a machine. Training and scoring share this function, so that they cannot differ."""
    from pyspark.sql.functions import avg, coalesce, lit, stddev
    from pyspark.sql.functions import max as greatest

    return readings.groupBy("machine", "batch").agg(
        avg("temperature").alias("temperature_mean"),
        greatest("temperature").alias("temperature_max"),
        avg("vibration").alias("vibration_mean"),
        coalesce(stddev("vibration"), lit(0.0)).alias("vibration_std"),
        greatest("failed").alias("failed"),
    )


def train(spark: Any, bootstrap: str, path: Path) -> float:
    """Learns from batches whose end is known, and keeps the model at `path`; the share it gets right.

    Spark makes few rows of many readings; a logistic regression over those is a loop over two arrays.
    """
    import numpy as np

    rows = features(read(spark, bootstrap)).where("failed IS NOT NULL").select(*FEATURES, "failed").collect()
    x = np.array([[float(row[name]) for name in FEATURES] for row in rows])
    y = np.array([float(row["failed"]) for row in rows])
    mean, deviation = x.mean(axis=0), x.std(axis=0) + 1e-9
    scaled, weights, bias = (x - mean) / deviation, np.zeros(len(FEATURES)), 0.0
    for _ in range(500):
        wrong = 1 / (1 + np.exp(-(scaled @ weights + bias))) - y
        weights -= 0.5 * (scaled.T @ wrong / len(y) + 0.01 * weights)
        bias -= 0.5 * wrong.mean()
    # In terms of the plain features, so that scoring needs nothing but these numbers.
    plain = weights / deviation
    model = {"weights": dict(zip(FEATURES, plain.tolist(), strict=True)), "bias": float(bias - plain @ mean)}
    path.write_text(json.dumps(model))
    return float(((scaled @ weights + bias > 0) == (y > 0)).mean())


def score(spark: Any, bootstrap: str, path: Path, checkpoint: str) -> Any:
    """A query over what is new: each batch without a known end gets a prediction in a topic, exactly once."""
    from pyspark.sql.functions import col, exp, from_json, lit, struct, to_json

    from ottla.spark import write_update

    model = json.loads(path.read_text())
    stream = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    stream = stream.option("subscribe", READINGS).option("startingOffsets", "earliest").load()
    readings = stream.select(from_json(col("value").cast("string"), SCHEMA).alias("r")).select("r.*")
    total = sum((col(name) * weight for name, weight in model["weights"].items()), lit(model["bias"]))
    risk = (1 / (1 + exp(-total))).alias("risk")
    scored = features(readings.where("failed IS NULL")).select("machine", "batch", risk)
    rows = scored.select(
        col("machine").alias("key"), to_json(struct("machine", "batch", "risk")).alias("value")
    )
    options = {"kafka.bootstrap.servers": bootstrap, "topic": PREDICTIONS, "checkpointLocation": checkpoint}
    return write_update(rows, options, trigger={"availableNow": True})


def main() -> None:
    from ottla.spark import session

    parser = argparse.ArgumentParser(description="from a topic to a model and back")
    parser.add_argument("what", choices=("train", "score"))
    parser.add_argument("--model", type=Path, default=Path("model.json"))
    parser.add_argument("--checkpoint", default="checkpoint")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments = parser.parse_args()
    spark = session("learning-feed")
    if arguments.what == "train":
        print(f"{train(spark, arguments.bootstrap, arguments.model):.0%} of the known batches are told right")
    else:
        score(spark, arguments.bootstrap, arguments.model, arguments.checkpoint).awaitTermination()


if __name__ == "__main__":
    main()
