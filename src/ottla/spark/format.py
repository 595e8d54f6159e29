"""The format `ottla`: which reader or writer serves a query, and how a session learns of it."""

from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSource

from ottla.errors import OttlaError
from ottla.spark.errors import OptionError
from ottla.spark.options import ReadOptions, WriteOptions
from ottla.spark.plain import told_plainly


class OttlaFormat(DataSource):
    """Heavy imports wait until they are needed: Spark makes this object in many processes."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    @told_plainly
    def schema(self) -> str:
        from ottla.spark.record_schema import schema_text

        return schema_text(ReadOptions.parse(self.options, streaming=None))

    @told_plainly
    def reader(self, schema: Any) -> Any:
        from ottla.spark.source import BatchReader

        return BatchReader(self._read_options(schema, streaming=False), schema)

    def streamReader(self, schema: Any) -> Any:
        from ottla.spark.refused import RefusedReader

        try:
            return self._stream_reader(schema)
        except OttlaError as error:
            return RefusedReader(error)

    def _stream_reader(self, schema: Any) -> Any:
        from ottla.spark.source import StreamReader

        return StreamReader(self._read_options(schema, streaming=True), schema)

    @told_plainly
    def writer(self, schema: Any, overwrite: bool) -> Any:
        from ottla.spark.sink import BatchWriter

        if overwrite:
            raise OptionError('mode("overwrite"): a topic is only appended to; write with mode("append")')
        return BatchWriter(WriteOptions.parse(self.options, streaming=False), schema)

    @told_plainly
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """`overwrite`: of outputMode("complete"), which appends all rows in every micro-batch, as Spark's own sink."""
        from ottla.spark import garbage
        from ottla.spark.sink import StreamWriter

        garbage.freeze()  # Spark makes a writer twice in every micro-batch: to plan it and to commit it
        return StreamWriter(WriteOptions.parse(self.options, streaming=True), schema)

    def _read_options(self, schema: Any, *, streaming: bool) -> ReadOptions:
        from ottla.spark.record_schema import check_own

        options = ReadOptions.parse(self.options, streaming=streaming)
        check_own(schema, options)
        if options.registered is not None and "value" in schema.fieldNames():
            from ottla.spark.registry_values import pinned

            kind = schema["value"].dataType.simpleString()
            return replace(options, registered=pinned(options.registered, kind))
        return options


def register(spark: Any) -> None:
    """For a session that was there before the package was installed; others find the format by themselves.
    In any session of your own it puts the sentence of our errors first; see `ottla.spark.driver`."""
    from ottla.spark import driver

    spark.dataSource.register(OttlaFormat)
    driver.install()
