"""`process`: a processor and its stores become nodes of the topology."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.streams.errors import BadTopology
from ottla.streams.graph import Graph
from ottla.streams.nodes.processor import Child, Process
from ottla.streams.processors import StoreDefinition
from ottla.streams.serdes import Serde

if TYPE_CHECKING:
    from ottla.streams.dsl.stream import Stream


def added_process(
    stream: "Stream",
    processor: Callable[[], Any],
    stores: Iterable[StoreDefinition | str],
    outputs: tuple[str, ...],
    key: Serde,
    value: Serde,
    name: str | None,
    *,
    keeps_keys: bool,
) -> Any:
    """The stream behind the processor, or one for each of its outputs."""
    graph = stream.builder.graph
    owners = {spec.name: placed for placed in graph.nodes for spec in placed.stores}
    definitions = [_definition(graph, store) for store in stores]
    shared = [owners[definition.name].number for definition in definitions if definition.name in owners]
    chosen = name or graph.name("KSTREAM-PROCESSVALUES" if keeps_keys else "KSTREAM-PROCESSOR")
    node = Process(chosen, processor, tuple(definitions), outputs, keeps_keys, one_by_one=bool(shared))
    own = [definition.spec for definition in definitions if definition.name not in owners]
    uses = [definition.name for definition in definitions if definition.name in owners]
    number = graph.add("", node, [stream.number], own, shared, name=chosen, uses=uses)
    after = replace(stream, number=number, key=key, value=value, rekeyed=stream.rekeyed or not keeps_keys)
    if not outputs:
        return after
    children = [
        graph.add("", Child(place), [number], name=f"{chosen}-{output}")
        for place, output in enumerate(outputs)
    ]
    return tuple(replace(after, number=child) for child in children)


def _definition(graph: Graph, store: StoreDefinition | str) -> StoreDefinition:
    if isinstance(store, StoreDefinition):
        known = _known(graph).get(store.name, store)
        if known != store:
            raise BadTopology(
                f"store {store.name} is described in two ways; processors that share it give the same one"
            )
        return store
    if store not in _known(graph):
        raise BadTopology(
            f"no processor has a store {store} yet; give keyed_store({store!r}, ...) or window_store(...)"
        )
    return _known(graph)[store]


def _known(graph: Graph) -> dict[str, StoreDefinition]:
    return {
        definition.name: definition
        for placed in graph.nodes
        if isinstance(placed.node, Process)
        for definition in placed.node.definitions
    }
