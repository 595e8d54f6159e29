"""Readings of machines are buffered in a topic; Spark makes features of them, trains a model, scores what comes.

python learning_feed.py train --model ./model
python learning_feed.py score --model ./model --checkpoint ./checkpoint
"""

import argparse
import json
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


def train(spark: Any, bootstrap: str, path: str) -> float:
    """Learns from batches whose end is known, and keeps the model at `path`; the share it gets right."""
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import StandardScaler, VectorAssembler

    known = (
        features(read(spark, bootstrap))
        .where("failed IS NOT NULL")
        .selectExpr("*", "INT(failed) AS label")
        .cache()
    )
    pipeline = Pipeline(
        stages=[
            VectorAssembler(inputCols=list(FEATURES), outputCol="raw"),
            StandardScaler(inputCol="raw", outputCol="features", withMean=True),
            LogisticRegression(maxIter=20, regParam=0.01),
        ]
    )
    model = pipeline.fit(known)
    model.write().overwrite().save(path)
    return float(model.transform(known).where("prediction = label").count() / known.count())


def score(spark: Any, bootstrap: str, path: str, checkpoint: str) -> Any:
    """A query over what is new: each batch without a known end gets a prediction in a topic, exactly once."""
    from pyspark.ml import PipelineModel
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql.functions import col, from_json, struct, to_json

    from ottla.spark import write_update

    model = PipelineModel.load(path)
    stream = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    stream = stream.option("subscribe", READINGS).option("startingOffsets", "earliest").load()
    readings = stream.select(from_json(col("value").cast("string"), SCHEMA).alias("r")).select("r.*")
    scored = model.transform(features(readings.where("failed IS NULL")))
    risk = vector_to_array("probability")[1].alias("risk")
    rows = scored.select(
        col("machine").alias("key"), to_json(struct("machine", "batch", risk)).alias("value")
    )
    options = {"kafka.bootstrap.servers": bootstrap, "topic": PREDICTIONS, "checkpointLocation": checkpoint}
    return write_update(rows, options, trigger={"availableNow": True})


def main() -> None:
    from ottla.spark import session

    parser = argparse.ArgumentParser(description="from a topic to a model and back")
    parser.add_argument("what", choices=("train", "score"))
    parser.add_argument("--model", default="model")
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
