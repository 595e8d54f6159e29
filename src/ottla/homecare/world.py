"""The world of devices and patients, made from a seed: what they send up to a moment, and what is true about it.

No clock and no network. All devices are handled at once in numpy, and messages are put together by Arrow, so one
process makes far more than a broker takes.
"""

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare import topics
from ottla.homecare.rules import Rules
from ottla.homecare.truth import Truth

Ints = Any  # numpy arrays of int64
_FAR = 1 << 60
_SERVICES = (("observation", 180), ("medication", 1_250), ("wound care", 3_875), ("home visit", 4_550))
_MONTH_MS = 31 * 24 * 3_600_000
PATIENTS_PER_WARD = 20
_SHIFTS = 3
ROSTER_AHEAD_MS = 6_000  # a new roster is known this long before it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large a world, and how much goes wrong in it."""

    devices: int = 2_000
    rate: float = 2.0  # messages a second and device: one a second is a heartbeat, the others are vitals
    seconds: float = 50.0
    seed: int = 7
    rules: Rules = field(default_factory=Rules)
    late_share: float = 0.01
    repeated_share: float = 0.01
    silent_share: float = 0.05
    sick_share: float = 0.02
    blip_share: float = 0.0005  # single readings out of range: nobody must be called for them
    billing_every_s: float = 10.0
    roster_every_s: float = 15.0
    with_truth: bool = True

    @property
    def beat_every(self) -> int:
        """Every how many messages a heartbeat comes."""
        return max(2, round(self.rate))


@dataclass(slots=True)
class Message:
    """Messages of one kind that are on their way: when they happened and when they get through."""

    topic: str
    due: Ints
    rows: pa.RecordBatch


class World:
    """`advance(to_ms)` gives what gets through by then; `end()` whatever is still on its way."""

    def __init__(self, plan: Plan, start_ms: int) -> None:
        self.plan, self.start_ms = plan, start_ms
        self.now_ms = start_ms
        self.sent: dict[str, int] = dict.fromkeys(
            (topics.HEARTBEAT, topics.VITALS, topics.BILLING, topics.ROSTER), 0
        )
        self.repeated = self.late = 0
        self.truth = Truth(plan.devices, plan.rules, start_ms)
        self._random = np.random.default_rng(plan.seed)
        self._waiting: list[Message] = []
        self._device_ids = pa.array([device_id(i) for i in range(plan.devices)], pa.string())
        self._patient_ids = pa.array([patient_id(i) for i in range(plan.devices)], pa.string())
        self._period = 1000 / plan.rate
        self._phase = self._random.uniform(0, self._period, plan.devices)
        self._bill_period = plan.billing_every_s * 1000
        self._bill_phase = self._random.uniform(0, self._bill_period, plan.devices)
        self._bill_number = np.zeros(plan.devices, np.int64)
        self._next_roster = start_ms + plan.roster_every_s * 1000
        self._silences = list(self._plan_silences())
        self._plan_illness()
        self._texts = _Texts()
        self._nurse = self._random.integers(0, _SHIFTS, plan.devices)

    # -- what is sent ------------------------------------------------------------------------------

    def roster(self) -> pa.RecordBatch:
        """The roster as it is when the day begins: to be sent first."""
        everybody = np.arange(self.plan.devices)
        return self._roster_rows(everybody, np.zeros(self.plan.devices, np.int64), self.start_ms)

    def advance(self, to_ms: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Topic and rows of what gets through in [now, to)."""
        device, number, at = self._slots(self._phase, self._period, to_ms)
        beats = number % self.plan.beat_every == 0
        self._put(topics.HEARTBEAT, *self._heartbeats(device[beats], at[beats]))
        self._put(topics.VITALS, *self._vitals(device[~beats], at[~beats]))
        device, _, at = self._slots(self._bill_phase, self._bill_period, to_ms)
        self._put(topics.BILLING, *self._billing(device, at))
        self._change_roster(to_ms)
        self.now_ms = to_ms
        yield from self._through(to_ms)

    def end(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What is late gets through after all; from here on there is silence."""
        yield from self._through(_FAR)

    def _slots(self, phase: Any, period: float, to_ms: int) -> tuple[Ints, Ints, Ints]:
        """Device, number and time of every message that falls into [now, to), in the order of time."""
        first = np.ceil((self.now_ms - self.start_ms - phase) / period).astype(np.int64)
        first = np.maximum(first, 0)
        end = np.maximum(np.ceil((to_ms - self.start_ms - phase) / period).astype(np.int64), first)
        count = end - first
        device = np.repeat(np.arange(len(phase)), count)
        begins = np.cumsum(count) - count
        number = np.arange(len(device)) - np.repeat(begins - first, count)
        at = self.start_ms + np.floor(phase[device] + number * period).astype(np.int64)
        spoken = ~self._is_silent(device, at)
        device, number, at = device[spoken], number[spoken], at[spoken]
        order = np.argsort(at, kind="stable")
        return device[order], number[order], at[order]

    def _heartbeats(self, device: Ints, at: Ints) -> tuple[Ints, pa.RecordBatch]:
        if self.plan.with_truth:
            self.truth.on_heartbeats(device, at)
        battery = 100 - (at - self.start_ms) // 60_000 % 90
        return at, _rows(self._device_ids, device, self._texts.heartbeat(battery), at)

    def _vitals(self, patient: Ints, at: Ints) -> tuple[Ints, pa.RecordBatch]:
        chance = self._random.random((3, len(patient)))
        pulse = self._pulse[patient] + (chance[0] * 10 - 5).astype(np.int64)
        spo2 = 95 + (chance[1] * 5).astype(np.int64)
        temperature = self._temperature[patient] + (chance[2] * 6 - 3).astype(np.int64)
        ill = (at >= self._ill_from[patient]) & (at < self._ill_until[patient])
        ill |= self._random.random(len(patient)) < self.plan.blip_share
        kind = self._illness[patient]
        pulse = np.where(ill & (kind == 0), 150 + (chance[0] * 30).astype(np.int64), pulse)
        spo2 = np.where(ill & (kind == 1), 80 + (chance[1] * 8).astype(np.int64), spo2)
        temperature = np.where(ill & (kind == 2), 395 + (chance[2] * 10).astype(np.int64), temperature)
        if self.plan.with_truth:
            self.truth.on_vitals(patient, at, ill)
        values = self._texts.vitals(pulse, spo2, temperature)
        return at, _rows(self._patient_ids, patient, values, at)

    def _billing(self, device: Ints, at: Ints) -> tuple[Ints, pa.RecordBatch]:
        number = self._numbered(device)
        service = self._random.integers(0, len(_SERVICES), len(device))
        cents = np.array([price for _, price in _SERVICES])[service]
        # Some services are reported a month later: they belong to the month in which they were rendered.
        rendered = at - np.where(self._random.random(len(device)) < 0.2, _MONTH_MS, 0)
        if self.plan.with_truth:
            self.truth.on_billing(device, rendered, cents)
        values = pc.binary_join_element_wise(
            '{"device":"', self._device_ids.take(pa.array(device)),
            '","number":', pa.array(number).cast(pa.string()),
            ',"service":"', pa.array([name for name, _ in _SERVICES]).take(pa.array(service)),
            '","cents":', pa.array(cents).cast(pa.string()),
            ',"rendered":', pa.array(rendered).cast(pa.string()), "}", "",
        )  # fmt: skip
        return at, _rows(self._patient_ids, device, values, at)

    def _numbered(self, device: Ints) -> Ints:
        """Each device counts its own services from 1 on."""
        order = np.argsort(device, kind="stable")
        ordered = device[order]
        begins = (
            np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.array([], int)
        )
        lengths = np.diff(np.r_[begins, len(ordered)])
        rank = np.empty(len(device), np.int64)
        rank[order] = np.arange(len(ordered)) - np.repeat(begins, lengths)
        number = self._bill_number[device] + rank + 1
        np.maximum.at(self._bill_number, device, number)
        return number

    def _change_roster(self, to_ms: int) -> None:
        while self._next_roster < to_ms:
            chosen = np.flatnonzero(self._random.random(self.plan.devices) < 0.1)
            self._nurse[chosen] = (self._nurse[chosen] + 1) % _SHIFTS
            published = int(self._next_roster)
            begins = np.full(len(chosen), published + ROSTER_AHEAD_MS, np.int64)
            rows = self._roster_rows(chosen, begins, published)
            # Straight away: a roster that is late is known early enough all the same.
            self._waiting.append(Message(topics.ROSTER, np.full(len(chosen), published), rows))
            self._next_roster += self.plan.roster_every_s * 1000

    def _roster_rows(self, patient: Ints, begins: Ints, at_ms: int) -> pa.RecordBatch:
        ward = patient // PATIENTS_PER_WARD
        nurses = [nurse_name(w, s) for w, s in zip(ward.tolist(), self._nurse[patient].tolist(), strict=True)]
        if self.plan.with_truth:
            self.truth.on_roster(patient, begins, nurses)
        values = pc.binary_join_element_wise(
            '{"nurse":"', pa.array(nurses, pa.string()),
            '","ward":"', pa.array([ward_name(w) for w in ward.tolist()], pa.string()),
            '","from":', pa.array(begins).cast(pa.string()), "}", "",
        )  # fmt: skip
        return _rows(self._patient_ids, patient, values, np.full(len(patient), at_ms))

    # -- what goes wrong ---------------------------------------------------------------------------

    def _put(self, topic: str, at: Ints, rows: pa.RecordBatch) -> None:
        """Most get through at once, some later, some twice."""
        delay_max = self.plan.rules.lateness_ms * 0.75
        late = self._random.random(len(at)) < self.plan.late_share
        due = at + np.where(late, self._random.uniform(1, delay_max, len(at)), 0).astype(np.int64)
        self._waiting.append(Message(topic, due, rows))
        again = np.flatnonzero(self._random.random(len(at)) < self.plan.repeated_share)
        if len(again):
            later = at[again] + self._random.uniform(1, delay_max, len(again)).astype(np.int64)
            self._waiting.append(Message(topic, later, rows.take(pa.array(again))))
        self.late += int(late.sum())
        self.repeated += len(again)

    def _through(self, to_ms: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        postponed: dict[str, list[Message]] = {}
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            now = message.due < to_ms
            rows = message.rows
            if not now.all():
                later = np.flatnonzero(~now)
                rest = Message(message.topic, message.due[later], rows.take(pa.array(later)))
                postponed.setdefault(message.topic, []).append(rest)
                rows = rows.filter(pa.array(now))
            if rows.num_rows:
                self.sent[message.topic] += rows.num_rows
                yield message.topic, rows
        self._waiting += [_joined(topic, messages) for topic, messages in postponed.items()]

    def _plan_silences(self) -> Iterator[tuple[Ints, Ints]]:
        """For every device from when to when it says nothing; long ones are noticed, short ones must not be."""
        plan, count = self.plan, self.plan.devices
        beat = self._period * plan.beat_every
        span = plan.seconds * 1000
        long = plan.rules.timeout_ms + beat + self._random.uniform(0, max(span * 0.2, 2 * beat), count)
        short = self._random.uniform(0.2, 0.9, count) * max(0, plan.rules.timeout_ms - 2 * beat)
        for share, length in ((plan.silent_share, long), (plan.silent_share, short)):
            begins = self.start_ms + self._random.uniform(0.05, 0.7, count) * span
            chosen = self._random.random(count) < share
            yield (
                np.where(chosen, begins, _FAR).astype(np.int64),
                np.where(chosen, begins + length, _FAR).astype(np.int64),
            )

    def _is_silent(self, device: Ints, at: Ints) -> Any:
        silent = np.zeros(len(device), bool)
        for begins, ends in self._silences:
            silent |= (at >= begins[device]) & (at < ends[device])
        return silent

    def _plan_illness(self) -> None:
        plan, count, random = self.plan, self.plan.devices, self._random
        span = plan.seconds * 1000
        self._pulse = random.integers(62, 95, count)
        self._temperature = random.integers(363, 372, count)
        self._illness = random.integers(0, 3, count)
        begins = self.start_ms + random.uniform(0.05, 0.8, count) * span
        lasts = random.uniform(0.3, 2.0, count) * plan.rules.escalate_ms
        ill = random.random(count) < plan.sick_share
        self._ill_from = np.where(ill, begins, _FAR).astype(np.int64)
        self._ill_until = np.where(ill, begins + lasts, _FAR).astype(np.int64)


class _Texts:
    """JSON from parts that are there already: to look up is quicker than to print numbers."""

    def __init__(self) -> None:
        self._battery = pa.array([f'{{"battery":{i}}}' for i in range(101)])
        self._pulse = pa.array([f'{{"pulse":{i},"spo2":' for i in range(256)])
        self._spo2 = pa.array([f'{i},"temperature":' for i in range(101)])
        self._temperature = pa.array([f"{i / 10:.1f}}}" for i in range(500)])

    def heartbeat(self, battery: Ints) -> pa.Array:
        return self._battery.take(pa.array(battery))

    def vitals(self, pulse: Ints, spo2: Ints, temperature: Ints) -> pa.Array:
        parts = (self._pulse.take(pa.array(pulse)), self._spo2.take(pa.array(spo2)))
        return pc.binary_join_element_wise(*parts, self._temperature.take(pa.array(temperature)), "")


def device_id(number: int) -> str:
    return f"device-{number:07d}"


def patient_id(number: int) -> str:
    return f"patient-{number:07d}"


def nurse_name(ward: int, shift: int) -> str:
    return f"nurse-{ward:05d}-{'abc'[shift]}"


def ward_name(ward: int) -> str:
    return f"ward-{ward:05d}"


def month_of(rendered_ms: int) -> str:
    return datetime.datetime.fromtimestamp(rendered_ms / 1000, datetime.UTC).strftime("%Y-%m")


def messages_a_second(plan: Plan) -> float:
    """What the plan comes to, without repetitions."""
    return plan.devices * (plan.rate + 1 / plan.billing_every_s)


def step_ms(plan: Plan, *, flat_out: bool) -> int:
    """How far to advance at a time. A step costs something for every device, whether it speaks or not; but what
    happens is held back until the step ends, so in live operation it is as short as many devices allow."""
    return max(100, min(1000, math.ceil(plan.devices / (20 if flat_out else 1000))))


def _joined(topic: str, messages: list[Message]) -> Message:
    """One where there were many: each is looked at in every step."""
    if len(messages) == 1:
        return messages[0]
    rows = pa.Table.from_batches([message.rows for message in messages]).combine_chunks().to_batches()[0]
    return Message(topic, np.concatenate([message.due for message in messages]), rows)


def _rows(ids: pa.Array, chosen: Ints, values: pa.Array, at: Ints) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [ids.take(pa.array(chosen)), values.cast(pa.binary()), pa.array(at, pa.int64())],
        names=["key", "value", "timestamp"],
    )
