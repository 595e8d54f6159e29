"""A stream whose options are refused.

PySpark 4.3 stops the reader when making it fails, finds that there is none, and shows that error of its own instead of
the reason. So the reader is made, and refuses at the first thing that Spark asks.
"""

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from ottla.errors import OttlaError
from ottla.spark.plain import told_plainly


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, error: OttlaError) -> None:
        self._error = error

    @told_plainly
    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> NoReturn:
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> NoReturn:
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        self._refuse()
