"""An application on a broker, run by pipelines as Spark runs it; workers are replaced on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ottla.pipelines.driver import refuse_renumbered
from ottla.pipelines.positions import ChangelogEnd, Commit
from ottla.pipelines.state.spec import StoreChanged
from ottla.streams import App, int64, string, within
from ottla.testing import Broker
from tests.pipelines.local import query


def test_words_are_counted_exactly_once_across_workers() -> None:
    lines = [f"w{number % 7} w{number % 3}" for number in range(40)]
    with Broker() as broker:
        broker.create_topic("lines", partitions=2)
        broker.create_topic("word-counts", partitions=2)
        app = App("word-count", bootstrap=broker.bootstrap)
        words = app.stream("lines", value=string).flat_map_values(str.split)
        counts = words.group_by(lambda key, word: word).count(name="counts")
        counts.to_stream().to("word-counts", value=int64)
        with query(app.pipeline()) as running:
            for at in range(0, len(lines), 10):
                for number, line in enumerate(lines[at : at + 10]):
                    broker.send("lines", line, key=f"k{number}", timestamp_ms=1_000 + at)
                running.drain()
                running.replace_workers()
        found: dict[str, list[int]] = {}
        for record in broker.records("word-counts"):
            found.setdefault(record.key.decode(), []).append(int.from_bytes(record.value))
        assert {word: seen[-1] for word, seen in found.items()} == Counter(" ".join(lines).split())
        assert all(seen == sorted(set(seen)) for seen in found.values())
        # The changelog is Kafka's: eight bytes, and the time of the latest record.
        changelog = broker.records("word-count-counts-changelog")
        assert {len(record.value) for record in changelog} == {8}
        assert max(record.timestamp_ms for record in changelog) == 1_030


@pytest.mark.parametrize("records_max", [500, 10, 1])
def test_a_backlog_is_joined_by_time_however_few_records_a_step_takes(records_max: int) -> None:
    """One topic has ten times as many records as the other in the same time."""
    with Broker() as broker:
        for topic in ("dense", "sparse", "out"):
            broker.create_topic(topic, partitions=1)
        for at in range(1_000, 1_050):
            broker.send("dense", str(at), key="k", timestamp_ms=at)
        for at in range(1_000, 1_050, 10):
            broker.send("sparse", str(at), key="k", timestamp_ms=at)
        app = App("app", bootstrap=broker.bootstrap)
        dense, sparse = (app.stream(topic, value=string) for topic in ("dense", "sparse"))
        dense.join(sparse, "{}+{}".format, value=string, within=within(ms=2)).to("out")
        with query(app.pipeline(records_max=records_max)) as running:
            running.drain(200)
        near = [f"{a}+{b}" for b in range(1_000, 1_050, 10) for a in range(max(1_000, b - 2), b + 3)]
        assert Counter(record.value.decode() for record in broker.records("out")) == Counter(near)


def waiting(app: App) -> None:
    """A left join of streams: some records wait for a partner."""
    left, right = app.stream("a", value=string), app.stream("b", value=string)
    left.left_join(right, lambda one, other: one, value=string, within=5).to("out")


def referring(app: App) -> None:
    left, right = app.table("a", value=string, name="as"), app.table("b", value=string, name="bs")
    left.join(right, lambda one, other: one, value=string, on=str).to_stream().to("out")


@pytest.mark.parametrize("build", [waiting, referring])
def test_a_join_without_a_name_is_not_left_behind_by_a_changed_program(build: Callable[[App], None]) -> None:
    before, after = App("app"), App("app")
    build(before)
    after.stream("more", value=string).to("elsewhere")
    build(after)
    stores = [store.name for stage in before.pipeline().stages for store in stage.stores]
    commit = Commit({}, ends={name: ChangelogEnd(1, "id", "bytes") for name in stores})
    refuse_renumbered(before.pipeline(), [commit])
    with pytest.raises(StoreChanged, match="give them names"):
        refuse_renumbered(after.pipeline(), [commit])
