"""What every node has, and what the kinds of nodes share."""

from collections.abc import Callable
from typing import Any

from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame

Function = Callable[..., Any]
EVERY, BATCH = "every", "batch"


class Node:
    """`run` is given what the parents made of the records at hand, and gives what its children get."""

    def run(self, frame: Frame, step: Step) -> Frame:
        raise NotImplementedError

    def on_time(self, step: Step) -> Frame:
        """What is due now that the time is `step.time_ms`."""
        return EMPTY


def complete(frame: Frame) -> Frame:
    """Records with a key and a value: as in Kafka Streams the others say nothing to an aggregate or an inner join."""
    return frame.where([k is not None and v is not None for k, v in frame.pairs()])
