"""The topics of home care: what is in them, by which key, and why they are kept as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.errors import TopicAlreadyExists
from ottla.homecare.client import Client

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

HEARTBEAT = "device-heartbeat"
EVENT = "device-event"
VITALS = "patient-vitals"
ROSTER = "nurse-roster"
ALERT = "nurse-alert"
BILLING = "billing-event"
TOTAL = "billing-total"


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    key: str
    holds: str
    why: str
    share: int = 1  # of the partitions that the stream of devices gets: 1 all of them, 0 one
    configs: Mapping[str, str] = field(default_factory=dict)

    def partitions(self, wide: int) -> int:
        return max(1, wide // self.share) if self.share else 1


TOPICS = (
    Topic(
        HEARTBEAT,
        key="device",
        holds="a sign of life, about one a second; the record's timestamp is the event time",
        why="By device, so that the heartbeats of one device stay in order. Worthless once judged: one day, "
        "for looking into an incident and for doing a day again.",
        configs={"retention.ms": str(_DAY_MS)},
    ),
    Topic(
        VITALS,
        key="patient",
        holds="pulse, oxygen saturation, temperature",
        why="By patient: a window is of one patient, so it never needs a second partition. The bulk of all bytes; "
        "three days on the broker, the archive is a table elsewhere.",
        configs={"retention.ms": str(3 * _DAY_MS)},
    ),
    Topic(
        BILLING,
        key="patient",
        holds="a service that was rendered: device, its own number, price in cents, when",
        why="By patient, as totals are. Money must be recountable: 400 days, longer than any complaint may take.",
        configs={"retention.ms": str(400 * _DAY_MS)},
    ),
    Topic(
        ROSTER,
        key="patient",
        holds="which nurse follows a patient on which ward, from when on",
        why="Compacted: the latest word on each patient is kept for ever, whatever its age, and a new reader gets "
        "the whole roster. As many partitions as the vitals have: the two are joined by patient, partition by "
        "partition.",
        configs={"cleanup.policy": "compact", "min.compaction.lag.ms": str(_HOUR_MS)},
    ),
    Topic(
        EVENT,
        key="device",
        holds="offline since when, online again when",
        why="By device: the two stay in order. A year, for statistics of faults.",
        share=4,
        configs={"retention.ms": str(365 * _DAY_MS)},
    ),
    Topic(
        ALERT,
        key="patient",
        holds="warning, critical, clear; with nurse and ward",
        why="By patient: an all-clear never overtakes its alert. Kept as long as records of care must be.",
        share=4,
        configs={"retention.ms": "-1"},
    ),
    Topic(
        TOTAL,
        key="patient/month",
        holds="number of services and cents of a patient in a month, so far",
        why="Compacted: the latest total of each patient and month is the truth, for ever. The table is made of it.",
        share=4,
        configs={"cleanup.policy": "compact"},
    ),
)
BY_NAME = {topic.name: topic for topic in TOPICS}


def create(client: Client, partitions: int = 4) -> list[str]:
    """Makes those that are not there yet; their names."""
    created_topics = []
    with Admin(client) as admin:
        for topic in TOPICS:
            wanted = NewTopic(topic.name, topic.partitions(partitions), configs=topic.configs)
            try:
                admin.create_topics([wanted])
                created_topics.append(topic.name)
            except TopicAlreadyExists:
                pass
    return created_topics
