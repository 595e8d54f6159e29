"""Less to send through an internal topic: the records of a key in a step become one before they are written."""

from dataclasses import replace

import numpy as np

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_column, codes_of
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import Node, complete
from ottla.streams.nodes.rows import last_of_each
from ottla.streams.serdes import Serde


@frozen_with_dict
class CountByKey(Node):
    """How many records with a value each key has, with the time of the latest. A sum of these counts is the count."""

    key: Serde

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        frame = complete(frame)
        if not len(frame):
            return EMPTY
        codes, _ = codes_of(self.key.encode(frame.keys))
        _, last = last_of_each(codes)
        distinct = codes[last]
        times = np.full(int(codes.max()) + 1, -1, np.int64)
        np.maximum.at(times, codes, frame.times)
        counts = arrow_column(np.bincount(codes)[distinct])
        return replace(frame.take(last), values=counts, times=times[distinct])
