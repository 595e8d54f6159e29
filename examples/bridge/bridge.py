"""Topics of one cluster, copied to another, exactly once: keys, values, headers, times and partitions.

python bridge.py orders payments --from localhost:9092 --to other:9092
"""

import argparse
import threading

import ottla


class Bridge:
    """The position in the source is committed to the target, in the transaction that writes the records there: after a
    crash the bridge goes on exactly behind the last record that arrived."""

    def __init__(self, source: str, target: str, topics: list[str], name: str = "bridge") -> None:
        self._source, self._target, self._topics, self._name = source, target, topics, name
        self.copied = 0

    def create_topics(self) -> None:
        """With as many partitions as at the source: a record keeps its partition."""
        with (
            ottla.Admin(bootstrap_servers=self._source) as here,
            ottla.Admin(bootstrap_servers=self._target) as there,
        ):
            present = there.list_topics()
            for name, topic in here.describe_topics(self._topics).items():
                if name not in present:
                    there.create_topic(name, partitions=len(topic.partitions))

    def run(self, ended: threading.Event, once: bool = False) -> None:
        """Until told to end, or `once` up to the ends of now."""
        self.create_topics()
        with (
            ottla.Consumer(
                bootstrap_servers=self._source,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as reader,
            ottla.Consumer(bootstrap_servers=self._target, group_id=self._name) as positions,
            ottla.Producer(bootstrap_servers=self._target, transactional_id=self._name) as writer,
        ):
            writer.init_transactions()  # a bridge of the same name that still runs is fenced
            places = [
                ottla.TopicPartition(topic, each)
                for topic in self._topics
                for each in reader.partitions_for(topic)
            ]
            reader.assign(places)
            for place, found in positions.committed(places).items():
                reader.seek(place, found.offset)
            ends = reader.end_offsets(places)
            group = positions.group_metadata()
            while not ended.is_set():
                if once and all(reader.position(place) >= end for place, end in ends.items()):
                    return
                self._step(reader, writer, places, group)

    def _step(
        self,
        reader: ottla.Consumer,
        writer: ottla.Producer,
        places: list[ottla.TopicPartition],
        group: ottla.GroupMetadata,
    ) -> None:
        records = reader.poll(0.2)
        if not records:
            return
        writer.begin_transaction()
        for record in records:
            writer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp=record.timestamp,
            )
        writer.send_offsets_to_transaction({place: reader.position(place) for place in places}, group)
        writer.commit_transaction()
        self.copied += len(records)


def main() -> None:
    parser = argparse.ArgumentParser(description="copy topics from one cluster to another")
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--from", dest="source", default="127.0.0.1:9092")
    parser.add_argument("--to", dest="target", required=True)
    parser.add_argument("--once", action="store_true", help="up to the ends of now")
    arguments = parser.parse_args()
    bridge = Bridge(arguments.source, arguments.target, arguments.topics)
    bridge.run(threading.Event(), arguments.once)
    print(f"{bridge.copied} records")


if __name__ == "__main__":
    main()
