"""Page views of a web site, looked at on Spark: sessions, a funnel, the pages of the hour.

python website_activity.py --bootstrap 127.0.0.1:9092 --checkpoint ./checkpoint
"""

import argparse
import json
from typing import Any

import ottla

VIEWS, SESSIONS = "page-views", "sessions"
FUNNEL = ("/", "/product", "/cart", "/paid")
GAP = "30 minutes"  # a visitor who is silent for this long has left
SCHEMA = "visitor string, page string, at long"


def view(producer: ottla.Producer, visitor: str, page: str, at_s: int) -> None:
    """What the site's page would send. The key keeps a visitor's views in order."""
    producer.send(VIEWS, json.dumps({"visitor": visitor, "page": page, "at": at_s}), key=visitor)


def views(frame: Any) -> Any:
    """The topic's records as columns visitor, page, time."""
    from pyspark.sql.functions import col, from_json, timestamp_seconds

    parsed = frame.select(from_json(col("value").cast("string"), SCHEMA).alias("view")).select("view.*")
    return parsed.withColumn("time", timestamp_seconds("at")).drop("at")


def read(spark: Any, bootstrap: str) -> Any:
    """Everything up to now, as a table."""
    frame = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    return views(frame.option("subscribe", VIEWS).load())


def top_pages(table: Any, window: str = "1 hour", limit: int = 3) -> list[tuple[str, str, int]]:
    """The most viewed pages of each window: its beginning, the page, the views."""
    from pyspark.sql import Window
    from pyspark.sql.functions import col, count, date_format, row_number
    from pyspark.sql.functions import window as windowed

    counted = table.groupBy(windowed("time", window).alias("w"), "page").agg(count("*").alias("views"))
    ranked = Window.partitionBy("w").orderBy(col("views").desc(), "page")
    rows = counted.withColumn("rank", row_number().over(ranked)).where(f"rank <= {limit}")
    rows = rows.select(date_format("w.start", "HH:mm").alias("from"), "page", "views").orderBy(
        "w.start", "rank"
    )
    return [tuple(row) for row in rows.collect()]


def funnel(table: Any, steps: tuple[str, ...] = FUNNEL) -> list[tuple[str, int]]:
    """How many visitors came this far, in this order: a step counts only after the one before it."""
    from pyspark.sql.functions import min as earliest

    reached = table.where(table.page == steps[0]).groupBy("visitor").agg(earliest("time").alias("reached"))
    counts = [(steps[0], reached.count())]
    for page in steps[1:]:
        after = table.where(table.page == page).join(reached, "visitor").where("time > reached")
        reached = after.groupBy("visitor").agg(earliest("time").alias("reached"))
        counts.append((page, reached.count()))
    return counts


def stream_sessions(spark: Any, bootstrap: str, checkpoint: str) -> Any:
    """A query that writes each session to a topic once it is over: exactly once, from the records that exist now."""
    from pyspark.sql.functions import col, count, session_window, struct, to_json, unix_timestamp

    frame = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    stream = views(frame.option("subscribe", VIEWS).option("startingOffsets", "earliest").load())
    sessions = (
        stream.withWatermark("time", "10 minutes")
        .groupBy("visitor", session_window("time", GAP).alias("s"))
        .agg(count("*").alias("pages"))
    )
    seconds = unix_timestamp(col("s.end")) - unix_timestamp(col("s.start")) - 30 * 60
    value = to_json(struct("visitor", "pages", seconds.alias("seconds")))
    return (
        sessions.select(col("visitor").alias("key"), value.alias("value"))
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", SESSIONS)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    from ottla.spark import session

    parser = argparse.ArgumentParser(description="sessions, funnel and top pages of a web site")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--checkpoint", default="checkpoint")
    arguments = parser.parse_args()
    spark = session("website-activity")
    table = read(spark, arguments.bootstrap)
    for begin, page, count in top_pages(table):
        print(f"{begin}  {page:20} {count:6} views")
    for page, count in funnel(table):
        print(f"{page:12} {count:6} visitors")
    stream_sessions(spark, arguments.bootstrap, arguments.checkpoint).awaitTermination()


if __name__ == "__main__":
    main()
