"""Pipelines with keyed state on Spark: exactly once, with the state in Spark's tasks. See docs/pipelines.md."""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla.pipelines.operators import Operator as Operator
    from ottla.pipelines.operators import Step as Step
    from ottla.pipelines.running import Running as Running
    from ottla.pipelines.running import run as run
    from ottla.pipelines.running import start as start
    from ottla.pipelines.state.spec import StoreSpec as StoreSpec
    from ottla.pipelines.topology import Pipeline as Pipeline
    from ottla.pipelines.topology import Repartition as Repartition
    from ottla.pipelines.topology import Stage as Stage

_HOMES = {
    "Operator": "ottla.pipelines.operators",
    "Pipeline": "ottla.pipelines.topology",
    "Repartition": "ottla.pipelines.topology",
    "Running": "ottla.pipelines.running",
    "Stage": "ottla.pipelines.topology",
    "Step": "ottla.pipelines.operators",
    "StoreSpec": "ottla.pipelines.state.spec",
    "run": "ottla.pipelines.running",
    "start": "ottla.pipelines.running",
}

__all__ = ["Operator", "Pipeline", "Repartition", "Running", "Stage", "Step", "StoreSpec", "run", "start"]

# Spark's workers import this package before they need any of it.
__getattr__ = names_of(__name__, _HOMES)
