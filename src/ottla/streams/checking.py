"""What would fail in Spark's workers, told before anything runs."""

from typing import Any

from ottla.streams.errors import BadTopology
from ottla.streams.graph import Graph


def check_travels(graph: Graph) -> None:
    """Functions of users travel to Spark's workers as pickles, with all that they hold on to."""
    from pyspark import cloudpickle

    for placed in graph.nodes:
        try:
            cloudpickle.dumps(placed.node)  # type: ignore[no-untyped-call]
        except Exception as error:  # pickling calls code of users, which may raise anything
            raise BadTopology(
                f"{placed.name}: {_function(placed.node)} cannot be sent to Spark's workers: {error}. Open "
                "connections, locks and files inside the function, not outside"
            ) from error


def _function(node: Any) -> str:
    fields = getattr(node, "__dict__", {})
    names = [getattr(value, "__qualname__", "") for value in fields.values() if callable(value)]
    return f"function {names[0]}" if names and names[0] else "the node"
