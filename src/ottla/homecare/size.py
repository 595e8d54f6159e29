"""`ottla homecare size`: what a number of patients needs, from measured figures and stated assumptions.

Measured figures are those of `docs/benchmarks.md`, for one core of the machine that it names; how long records are kept
is what the topics' own settings say. Each has an option, so that the answer for another machine takes one benchmark and
one command.
"""

import argparse
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import TypeVar

from ottla.homecare import topics
from ottla.homecare.figures import CORES, MEASURED

Figures = TypeVar("Figures", "Measured", "Assumed")
_DAY_S = 86_400
_MEGA = 1_000_000


def _of_a_core(pipeline: str) -> float:
    return round(MEASURED[f"home care: {pipeline}, 1,000,000 devices"] / CORES)


def _mb_s_of_a_core(direction: str) -> float:
    return round(1000 / MEASURED[f"{direction} 100 B lz4, broker CPU per GB"])


def _days(topic: str) -> float:
    """How long the broker keeps the topic's records."""
    return int(topics.BY_NAME[topic].configs["retention.ms"]) / 1000 / _DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Of one core. Those of Spark are with a million devices, the broker's with records of 100 bytes and lz4."""

    technician_rows_s: float = _of_a_core("technician")  # read, reduce, decide, commit
    nurse_rows_s: float = _of_a_core("nurse")
    billing_rows_s: float = _of_a_core("billing")
    broker_mb_s: float = _mb_s_of_a_core("produce")  # takes in, before compression
    broker_read_mb_s: float = _mb_s_of_a_core("consume")  # and gives out


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """About what is asked for; options change them."""

    message_bytes: int = 100  # key, value and their share of the batch
    compression: float = 2.0  # times smaller on disk and on the wire
    replication: int = 3
    readers: int = 2  # how often everything is read: the pipelines, and one more
    headroom: float = 0.5  # of what a part can do, how much it is planned to do
    heartbeat_share: float = 0.1
    billing_share: float = 0.001
    heartbeat_days: float = _days(topics.HEARTBEAT)  # kept, as the topic's retention.ms says
    vitals_days: float = _days(topics.VITALS)
    billing_days: float = _days(topics.BILLING)
    disk_tb: float = 8.0  # of a broker
    network_mb_s: float = 1_250.0  # of a broker: 10 Gbit/s
    partition_mb_s: float = 20.0  # one partition: less than one Spark task reads
    driver_devices: int = 2_000_000  # state that one driver keeps and saves

    @property
    def shares(self) -> dict[str, float]:
        """Of all messages, by the topic that they go to."""
        vitals = 1 - self.heartbeat_share - self.billing_share
        return {
            topics.HEARTBEAT: self.heartbeat_share,
            topics.VITALS: vitals,
            topics.BILLING: self.billing_share,
        }

    @property
    def kept_days(self) -> float:
        """On average of all bytes."""
        days = {
            topics.HEARTBEAT: self.heartbeat_days,
            topics.VITALS: self.vitals_days,
            topics.BILLING: self.billing_days,
        }
        return sum(share * days[topic] for topic, share in self.shares.items())


@dataclass(frozen=True, slots=True)
class Answer:
    messages_s: float
    mb_s: float
    wire_mb_s: float
    partitions: int
    brokers: int
    brokers_because: str
    brokers_for: dict[str, int]
    disk_tb: float
    disk_tb_each: float
    network_in_mb_s: float
    network_out_mb_s: float
    spark_cores: dict[str, int]
    drivers: int
    state_gb: float


def size(
    messages_s: float,
    devices: int,
    measured: Measured | None = None,
    assumed: Assumed | None = None,
    bytes_s: float | None = None,
) -> Answer:
    """`bytes_s` replaces messages times their size, where the bytes are what is known."""
    measured, assumed = measured or Measured(), assumed or Assumed()
    mb_s = (bytes_s if bytes_s is not None else messages_s * assumed.message_bytes) / _MEGA
    wire = mb_s / assumed.compression
    # Each broker takes its share from producers and, as a follower, the copies of the others.
    network_in, network_out = wire * assumed.replication, wire * (assumed.replication - 1 + assumed.readers)
    disk = wire * _MEGA * _DAY_S * assumed.kept_days * assumed.replication / 1e12
    room = assumed.headroom
    needs = {
        # Processor time was measured for bytes before compression; a copy is counted like a produce.
        "taking in": mb_s * assumed.replication / (measured.broker_mb_s * room),
        "giving out": mb_s * (assumed.replication - 1 + assumed.readers) / (measured.broker_read_mb_s * room),
        "network": max(network_in, network_out) / (assumed.network_mb_s * room),
        "disk": disk / (assumed.disk_tb * 0.8),
        "copies": float(assumed.replication),
    }
    brokers_for = {name: math.ceil(need) for name, need in needs.items()}
    because = max(needs, key=lambda name: needs[name])
    brokers = max(1, brokers_for[because])
    cores = _spark_cores(messages_s, measured, assumed)
    partitions = max(math.ceil(mb_s / (assumed.partition_mb_s * room)), sum(cores.values()), brokers)
    return Answer(
        messages_s=messages_s,
        mb_s=mb_s,
        wire_mb_s=wire,
        partitions=_rounded(partitions),
        brokers=brokers,
        brokers_because=because,
        brokers_for=brokers_for,
        disk_tb=disk,
        disk_tb_each=disk / brokers,
        network_in_mb_s=network_in / brokers,
        network_out_mb_s=network_out / brokers,
        spark_cores=cores,
        drivers=max(1, math.ceil(devices / assumed.driver_devices)),
        state_gb=devices * 100 / 1e9,
    )


def _spark_cores(messages_s: float, measured: Measured, assumed: Assumed) -> dict[str, int]:
    speeds = {
        "technician": (topics.HEARTBEAT, measured.technician_rows_s),
        "nurse": (topics.VITALS, measured.nurse_rows_s),
        "billing": (topics.BILLING, measured.billing_rows_s),
    }
    return {
        name: max(1, math.ceil(messages_s * assumed.shares[topic] / (rows_s * assumed.headroom)))
        for name, (topic, rows_s) in speeds.items()
    }


def _rounded(partitions: int) -> int:
    """Up to a number that divides well: adding partitions later moves keys."""
    step = 12 if partitions <= 120 else 60
    return max(step, math.ceil(partitions / step) * step)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--patients", type=int, default=1_000_000, help="default: 1,000,000")
    parser.add_argument(
        "--rate", type=float, default=10.0, help="messages a second and patient (default: 10)"
    )
    parser.add_argument("--messages-per-second", type=float, help="instead of patients and rate")
    parser.add_argument("--bytes-per-second", type=float, help="bytes in all, where they are known")
    parser.add_argument("--json", action="store_true")
    for kind in (Assumed, Measured):
        for field in fields(kind):
            word = "assumed" if kind is Assumed else "measured"
            option = f"--{field.name.replace('_', '-')}"
            parser.add_argument(option, type=float, help=f"{word}: {field.default:g}")


def run(arguments: argparse.Namespace) -> int:
    measured, assumed = _chosen(Measured(), arguments), _chosen(Assumed(), arguments)
    messages_s = arguments.messages_per_second or arguments.patients * arguments.rate
    answer = size(messages_s, arguments.patients, measured, assumed, arguments.bytes_per_second)
    if arguments.json:
        print(json.dumps({**asdict(answer), "measured": asdict(measured), "assumed": asdict(assumed)}))
    else:
        print("\n".join(lines(answer, measured, assumed)))
    return 0


def _chosen(kind: Figures, arguments: argparse.Namespace) -> Figures:
    values = {field.name: getattr(arguments, field.name) for field in fields(kind)}
    return replace(kind, **{name: value for name, value in values.items() if value is not None})


def lines(answer: Answer, measured: Measured, assumed: Assumed) -> list[str]:
    total = sum(answer.spark_cores.values())
    parts = ", ".join(f"{name} {cores:,}" for name, cores in answer.spark_cores.items())
    needs = ", ".join(f"{name} {count:,}" for name, count in answer.brokers_for.items())
    return [
        f"load          {answer.messages_s:,.0f} messages, {answer.mb_s:,.0f} MB a second; "
        f"{answer.wire_mb_s:,.0f} MB compressed",
        f"partitions    {answer.partitions:,} for each wide topic (vitals, heartbeats, billing), "
        "a quarter for the others",
        f"brokers       {answer.brokers:,}, because of {answer.brokers_because} ({needs})",
        f"disk          {answer.disk_tb:,.1f} TB in all, {answer.disk_tb_each:,.1f} TB a broker; "
        f"kept for {assumed.kept_days:.1f} days on average",
        f"network       {answer.network_in_mb_s:,.0f} MB/s in, {answer.network_out_mb_s:,.0f} MB/s out a broker",
        f"Spark         {total:,} cores ({parts}); "
        f"state {answer.state_gb:,.1f} GB, {answer.drivers} driver(s) a pipeline",
        "",
        "assumed       " + _shown(assumed),
        "measured      " + _shown(measured) + " (each of one core; docs/benchmarks.md)",
    ]


def _shown(figures: Measured | Assumed) -> str:
    return ", ".join(f"{name} {value:,g}" for name, value in asdict(figures).items())
