"""A format that reduces records where they are read: what enters the JVM is only what a function makes of them.

A record that goes from the source into a second Python function crosses into the JVM and back, which costs more than
reading it. Where the function needs nothing but the records of its task, it can run in the reader itself.
"""

from typing import TYPE_CHECKING, Any

from ottla.spark.format import OttlaFormat
from ottla.spark.options import ReadOptions

if TYPE_CHECKING:
    from ottla.spark.source import Reduce


def register_reduced(spark: Any, name: str, schema: str, reduce: "Reduce") -> None:
    """From here on `spark.readStream.format(name)` takes the options of `ottla` and gives rows of `schema`:
    what `reduce` makes of the records of a task. It travels to the tasks, so it holds plain values only."""

    class Reduced(OttlaFormat):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return schema

        def _stream_reader(self, schema: Any) -> Any:
            from ottla.spark.source import StreamReader

            return StreamReader(ReadOptions.parse(self.options, streaming=True), schema, reduce)

    spark.dataSource.register(Reduced)
