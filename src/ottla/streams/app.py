"""`App`: a program over topics, described by calls and run on Spark."""

from typing import Any

from ottla.pipelines.topology import EXACTLY_ONCE, Pipeline
from ottla.streams import nodes
from ottla.streams.compiling import global_tables, stages
from ottla.streams.describing import describe
from ottla.streams.dsl import Builder, GlobalTable, Stream, Table
from ottla.streams.errors import BadTopology
from ottla.streams.graph import GlobalSource, Graph
from ottla.streams.guarding import chosen
from ottla.streams.serdes import Serde, bytes_, string


class App:
    """`name` is the group's id and the prefix of internal topics. Settings of clients are keywords with underscores.

    Time is that of the records, as in Kafka Streams. With `clock="wall"` it also moves while nothing comes, to the
    wall clock minus `lateness_ms`, so that windows close; records that come even later are late then.

    `errors`: what becomes of a record that cannot be read, processed or written: "fail" (the default) stops the
    application, "skip" leaves it out and counts it. With `errors_dead_letter_queue_topic_name="..."` it is left out
    and goes to that topic.

    `guarantee="at_least_once"` does without transactions (see `Pipeline`); it may change between runs.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str = "localhost:9092",
        *,
        clock: str = "events",
        lateness_ms: int = 10_000,
        errors: str | None = None,
        guarantee: str = EXACTLY_ONCE,
        **client: Any,
    ) -> None:
        self.name = name
        self._timing = {"clock": clock, "lateness_ms": lateness_ms}
        self._client = {"bootstrap.servers": bootstrap, **{k.replace("_", "."): v for k, v in client.items()}}
        self._guarantee = guarantee
        self._feeds: list[Any] = []
        self._policy = chosen(errors, self._client)
        self._builder = Builder(name, Graph(), self._client)

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

    def use(self, **client: Any) -> None:
        """Other settings of clients, under Kafka's names."""
        self._client.update(client)

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
            stages(graph, self._policy, **self._timing),
            self._client,
            tuple(graph.repartitions),
            globals=global_tables(graph),
            guarantee=self._guarantee,
            **options,
        )

    def run(self, spark: Any = None, *, state_dir: str | None = None, **options: Any) -> None:
        """Until it is stopped, on a local Spark session or the given one; `once=True` ends with the records of now."""
        from ottla import pipelines
        from ottla.streams.checking import check_travels

        pipeline = self.pipeline(state_dir=state_dir)
        check_travels(self._builder.graph)
        queries = self._feed(state_dir, once=bool(options.get("once")))
        try:
            pipelines.run(pipeline, spark, **options)
        finally:
            for query in queries:
                query.stop()

    def from_dataframe(
        self, frame: Any, name: str, key: Serde = string, value: Serde = bytes_, partitions: int = 2
    ) -> Stream:
        """A stream of a DataFrame with the columns `key` and `value` (text or bytes), through the topic
        `<app>-<name>-dataframe`. A streaming one is written while the application runs, exactly once as long as its
        checkpoint under `state_dir` is kept; any other is written again with every start."""
        from ottla.streams.dataframes import Feed

        topic = f"{self.name}-{name}-dataframe"
        self._feeds.append(Feed(frame, topic, partitions))
        return self.stream(topic, key, value)

    def _feed(self, state_dir: str | None, *, once: bool) -> list[Any]:
        if not self._feeds:
            return []
        import tempfile
        from pathlib import Path

        from ottla.streams.dataframes import start_feeds

        folder = Path(state_dir or tempfile.mkdtemp(prefix="ottla-streams-")) / self.name / "dataframes"
        return start_feeds(self._feeds, self._client, folder, once=once)

    def store(self, name: str, bootstrap: str | None = None) -> Any:
        """Rows of a store, read from its changelog and followed: from any process, whether the app runs or not."""
        from ottla.streams.queries import Follower
        from ottla.streams.views import stored, view

        graph = self._builder.graph
        stored(graph, name)  # a name that the app does not have is told before anything is asked for
        spec = next(store for placed in graph.nodes for store in placed.stores if store.name == name)
        client = {**self._client, **({"bootstrap.servers": bootstrap} if bootstrap else {})}
        follower = Follower(client, spec, f"{self.name}-{name}-changelog")
        return view(graph, name, follower.look, follower.lock)

    def describe(self) -> str:
        """The topology in the words of Kafka Streams."""
        return describe(self._builder.graph)

    def mermaid(self) -> str:
        """The topology as a picture for Markdown."""
        from ottla.streams.picturing import mermaid

        return mermaid(self._builder.graph)

    def svg(self) -> str:
        """The topology as a picture."""
        from ottla.streams.picturing import svg

        return svg(self._builder.graph)
