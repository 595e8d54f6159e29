"""`write_update`: `outputMode("update")` and `outputMode("complete")` into a topic, exactly once.

Spark's interface for sinks in Python knows rows that are appended, and no updates. Inside `foreachBatch` a
micro-batch is an ordinary frame, and the sink writes it once by the query's id and the micro-batch's number.
"""

from collections.abc import Mapping
from typing import Any

from ottla.spark.errors import OptionError
from ottla.spark.options import WriteOptions

_OF_THE_QUERY = ("checkpointlocation",)


def write_update(
    frame: Any,
    options: Mapping[str, object],
    *,
    mode: str = "update",
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Any:
    """Starts a query that writes the changed rows of each micro-batch. Takes the options of the sink, among them
    `checkpointLocation`; gives the `StreamingQuery`."""
    texts = {key: str(value) for key, value in options.items()}
    checkpoint = {key: value for key, value in texts.items() if key.lower() in _OF_THE_QUERY}
    if not checkpoint:
        raise OptionError("checkpointLocation is missing: without it a restart would write everything again")
    WriteOptions.parse(texts, streaming=True)  # a mistake is told here, not in the first micro-batch
    sink = {key: value for key, value in texts.items() if key not in checkpoint}

    def write(rows: Any, batch: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        writer = rows.write.format("ottla").options(**sink, queryId=query, batchId=str(batch))
        writer.mode("append").save()

    writer = frame.writeStream.outputMode(mode).options(**checkpoint).foreachBatch(write)
    if name is not None:
        writer = writer.queryName(name)
    return (writer.trigger(**trigger) if trigger else writer).start()
