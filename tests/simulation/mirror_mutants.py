"""Planted bugs for mirrored topics: each breaks one rule of compare and append or of the promotion."""

from __future__ import annotations

from typing import Any

from pytest import MonkeyPatch

from ottla import errors
from ottla.broker.handlers import produce
from ottla.storage import mirroring
from ottla.storage.markers import build_reset
from ottla.storage.producers import Producers
from ottla.wire.mirror_frame import MirrorFrame, is_frame
from tests.simulation.planted import Mutants

MUTANTS = Mutants()
caught_as = MUTANTS.caught_as


def _with_expected_end(patch: MonkeyPatch, change: Any) -> None:
    from ottla.storage.log import Log

    original = mirroring.append_mirrored

    def append(log: Any, frame: MirrorFrame, **more: Any) -> int:
        return original(log, change(log, frame), **more)

    patch.setattr(Log, "append_mirrored", append)


@caught_as("records of the source are missing")
def the_expected_end_is_not_compared(patch: MonkeyPatch) -> None:
    _with_expected_end(
        patch, lambda log, frame: frame._replace(expected_end=min(frame.expected_end, log.end_offset))
    )


@caught_as("somebody else's batch|a stranger's record is acknowledged")
def anybody_may_write_to_a_mirror(patch: MonkeyPatch) -> None:
    original = mirroring.check_sender

    def check(log: Any, topic: str, frame: MirrorFrame | None) -> None:
        if frame is not None:
            original(log, topic, frame)

    async def append(self: Any, topic: Any, data: Any, records: Any) -> Any:
        if is_frame(records):
            return await mirrored(self, topic, data, records)
        partition, log = self._leader(topic, data)
        return self._write(partition, log, topic, data, self._accept_at_once(records, log))

    mirrored = produce._Appending._append_mirrored
    patch.setattr(produce, "check_sender", check)
    patch.setattr(produce._Appending, "_append_mirrored", append)


@caught_as("the link writes after it was fenced|the link writes to a promoted topic")
def link_epochs_are_not_looked_at(patch: MonkeyPatch) -> None:
    original = mirroring.check_sender

    def check(log: Any, topic: str, frame: MirrorFrame | None) -> None:
        try:
            original(log, topic, frame)
        except (errors.InvalidProducerEpoch, errors.UnknownLeaderEpoch):
            return

    patch.setattr(produce, "check_sender", check)


@caught_as("a local record, acknowledged at .* is there 0 times")
def a_promotion_forgets_no_producers(patch: MonkeyPatch) -> None:
    patch.setattr(Producers, "reset", lambda self: None)


@caught_as("a transaction of the source is open for ever")
def a_promotion_aborts_nothing(patch: MonkeyPatch) -> None:
    patch.setattr(mirroring, "build_marker", lambda *_, now_ms, **__: build_reset(now_ms))
    patch.setattr(Producers, "reset", lambda self: None)
