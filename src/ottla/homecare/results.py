"""What came out: the result topics and the table, read for the verdict."""

from collections.abc import Iterator
from pathlib import Path

from ottla.client.values import TopicPartition
from ottla.homecare import table, topics
from ottla.homecare.client import Client
from ottla.homecare.reading import Ends, edges, read_ranges
from ottla.homecare.truth import Expected
from ottla.homecare.verdict import Verdict, judge


class Results:
    """Reads on from where it was; keeps what it has read."""

    def __init__(self, client: Client, table_folder: Path) -> None:
        self._client, self._folder = client, table_folder
        self._read: Ends = {}
        self._records: dict[str, list[tuple[str, bytes]]] = {
            topic: [] for topic in (topics.EVENT, topics.ALERT, topics.TOTAL)
        }

    def judge(self, expected: Expected) -> Verdict:
        for topic, records in self._records.items():
            records.extend(self._new(topic))
        return judge(
            expected,
            [value for _, value in self._records[topics.EVENT]],
            [value for _, value in self._records[topics.ALERT]],
            self._records[topics.TOTAL],
            table.as_totals(table.update(self._client, self._folder)),
        )

    def _new(self, topic: str) -> Iterator[tuple[str, bytes]]:
        begins, ends = edges(self._client, topic)
        known: dict[TopicPartition, int] = {w: at for w, at in self._read.items() if w in begins}
        for rows in read_ranges(self._client, begins | known, ends):
            keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
            yield from zip(map(bytes.decode, keys), values, strict=True)
        self._read.update(ends)
