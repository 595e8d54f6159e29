"""A join of tables where a row of the left one names a row of the right one."""

from typing import TYPE_CHECKING

from ottla.pipelines.topology import Repartition
from ottla.streams import nodes
from ottla.streams.dsl.builder import Function
from ottla.streams.errors import BadTopology
from ottla.streams.nodes import LEFT, OUTER
from ottla.streams.nodes.foreign import Answer, AnswerSerde, ForeignJoin, Subscribe, SubscriptionSerde
from ottla.streams.serdes import Serde, bytes_

if TYPE_CHECKING:
    from ottla.streams.dsl.stream import Joiner
    from ottla.streams.dsl.table import Table


def foreign_join(
    left: "Table", right: "Table", how: str, function: "Joiner", value: Serde, on: Function, name: str | None
) -> "Table":
    from ottla.streams.dsl.table import Table

    if how == OUTER:
        raise BadTopology("a join by another key is inner or left")
    graph, builder = left.builder.graph, left.builder
    left.enable_olds(force=True)
    right.enable_olds(force=True)
    base = name or graph.name("KTABLE-FK-JOIN")
    topics = [f"{base}-{kind}" for kind in ("rows", "subscription-registration", "subscription-response")]
    rows, asked, answered = topics
    graph.repartitions.extend(Repartition(topic) for topic in topics)
    is_left = how == LEFT
    subscribe = Subscribe(left.key, left.value, right.key, on, is_left)
    sent = graph.add("KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION", subscribe, [left.number])
    subscriptions = SubscriptionSerde()
    graph.add("KTABLE-SINK", nodes.Sink(asked, right.key, subscriptions), [sent])
    graph.add("KTABLE-SINK", nodes.Sink(rows, left.key, left.value), [left.number])

    received = builder.source(asked, right.key, subscriptions, f"{builder.name}-{asked}-repartition")
    answer = Answer(f"{base}-subscription-store", right.key, right.value, right.lookup())
    parents = [received, right.number]
    answering = graph.add("KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR", answer, parents, [answer.spec()])
    graph.add("KTABLE-SINK", nodes.Sink(answered, bytes_, AnswerSerde()), [answering])

    sources = [
        builder.source(rows, left.key, left.value, f"{builder.name}-{rows}-repartition"),
        builder.source(answered, left.key, AnswerSerde(), f"{builder.name}-{answered}-repartition"),
    ]
    join = ForeignJoin(f"{base}-rows-store", left.key, left.value, right.value, function, is_left)
    joined = graph.add("KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER", join, sources, join.specs())
    node = nodes.TableSource(left.key, value)
    number = graph.add("KTABLE-FK-JOIN-OUTPUT", node, [joined])
    table = Table(builder, number, left.key, value, node, unnamed=f"{base}-output")
    if name is not None:
        table.keep(name)
    return table
