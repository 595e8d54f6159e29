"""`App`: a program over topics, described by calls and run on Spark."""

from typing import Any

from ottla.pipelines.topology import Pipeline
from ottla.streams import nodes
from ottla.streams.compiling import global_tables, stages
from ottla.streams.describing import describe
from ottla.streams.dsl import Builder, GlobalTable, Stream, Table
from ottla.streams.errors import BadTopology
from ottla.streams.graph import GlobalSource, Graph
from ottla.streams.serdes import Serde, bytes_, string


class App:
    """`name` is the group's id and the prefix of internal topics. Settings of clients are keywords with underscores.

    Time is that of the records, as in Kafka Streams. With `clock="wall"` it also moves while nothing comes, to the
    wall clock minus `lateness_ms`, so that windows close; records that come even later are late then.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str = "localhost:9092",
        *,
        clock: str = "events",
        lateness_ms: int = 10_000,
        **client: Any,
    ) -> None:
        self.name = name
        self._timing = {"clock": clock, "lateness_ms": lateness_ms}
        self._client = {"bootstrap.servers": bootstrap, **{k.replace("_", "."): v for k, v in client.items()}}
        self._builder = Builder(name, Graph())

    def stream(self, topic: str, key: Serde = string, value: Serde = bytes_) -> Stream:
        return Stream(self._builder, self._builder.source(topic, key, value), key, value)

    def table(self, topic: str, key: Serde = string, value: Serde = bytes_, name: str | None = None) -> Table:
        """The latest value of each key; a record without value deletes its key."""
        graph = self._builder.graph
        unnamed = None if name else graph.name(f"{topic}-STATE-STORE")
        source = self._builder.source(topic, key, value)
        node = nodes.TableSource(key, value)
        number = graph.add("KTABLE-SOURCE", node, [source])
        table = Table(self._builder, number, key, value, node, unnamed=unnamed)
        if name is not None:
            table.keep(name)
        return table

    def global_table(
        self, topic: str, key: Serde = string, value: Serde = bytes_, name: str | None = None
    ) -> GlobalTable:
        """As `table`, but every worker has all of it: streams join it by any key, without repartitioning. What a record
        meets is what its worker has read by then."""
        graph = self._builder.graph
        store = name or graph.name(f"{topic}-STATE-STORE")
        self._builder.refuse_second(topic)
        names = graph.name("KSTREAM-SOURCE"), graph.name("KTABLE-SOURCE")
        graph.globals[store] = GlobalSource(topic, key, value, names)
        return GlobalTable(self._builder, topic, key, value, store)

    def pipeline(self, **options: Any) -> Pipeline:
        """What `ottla.pipelines` runs; `options` are those of `Pipeline`."""
        graph = self._builder.graph
        if not graph.nodes:
            raise BadTopology(f"app {self.name} reads nothing; begin with app.stream(...) or app.table(...)")
        return Pipeline(
            self.name,
            stages(graph, **self._timing),
            self._client,
            tuple(graph.repartitions),
            globals=global_tables(graph),
            **options,
        )

    def run(self, spark: Any = None, *, state_dir: str | None = None, **options: Any) -> None:
        """Until it is stopped, on a local Spark session or the given one; `once=True` ends with the records of now."""
        from ottla import pipelines
        from ottla.streams.checking import check_travels

        pipeline = self.pipeline(state_dir=state_dir)
        check_travels(self._builder.graph)
        pipelines.run(pipeline, spark, **options)

    def describe(self) -> str:
        """The topology in the words of Kafka Streams."""
        return describe(self._builder.graph)
