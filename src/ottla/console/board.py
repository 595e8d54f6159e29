"""What the home care topics say at the moment: devices that are offline, patients with an alert."""

import json
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.client.values import TopicPartition

if TYPE_CHECKING:
    from ottla.console.workspace import Workspace

EVENT, ALERT = "device-event", "nurse-alert"
HEARTBEAT, VITALS, BILLING, TOTAL = "device-heartbeat", "patient-vitals", "billing-event", "billing-total"
TOPICS = (HEARTBEAT, VITALS, BILLING, EVENT, ALERT, TOTAL)
KEPT_MAX = 50_000
RECENT = 30
BEHIND_MAX = 20_000  # events of a partition that are read at the start
LOOK_S = 0.3


@dataclass(frozen=True, slots=True)
class Alert:
    patient: str
    level: str
    nurse: str
    ward: str
    since_ms: int


@dataclass(slots=True)
class Board:
    """Follows two topics with a consumer of its own; asked at most once a second."""

    offline: "OrderedDict[str, int]" = field(default_factory=OrderedDict)  # device -> since
    alerting: "OrderedDict[str, Alert]" = field(default_factory=OrderedDict)
    recent: "deque[tuple[int, str, str]]" = field(
        default_factory=lambda: deque(maxlen=RECENT)
    )  # when, what, tone
    _consumer: Any = None
    _looked: float = 0.0

    async def look(self, workspace: "Workspace") -> None:
        """Takes in what is new."""
        if time.monotonic() - self._looked < 0.8:
            return
        self._looked = time.monotonic()
        if self._consumer is None:
            self._consumer = await self._open(workspace)
        deadline = time.monotonic() + LOOK_S
        while time.monotonic() < deadline:
            records = await self._consumer.poll(0.05)
            for record in records:
                self.on_record(record.topic, record.value)
            if not records:
                return

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()
            self._consumer = None

    async def _open(self, workspace: "Workspace") -> Any:
        consumer = workspace.consumer(isolation_level="read_committed")
        try:
            places = [TopicPartition(t, p) for t in (EVENT, ALERT) for p in await consumer.partitions_for(t)]
            await consumer.assign(places)
            begins, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            for place in places:
                await consumer.seek(place, max(begins[place], ends[place] - BEHIND_MAX))
        except BaseException:
            await consumer.close()
            raise
        return consumer

    def on_record(self, topic: str, value: bytes | None) -> None:
        try:
            document = json.loads(value or b"")
            if topic == EVENT:
                self._on_event(str(document["device"]), str(document["state"]), int(document["at"]))
            else:
                self._on_alert(
                    Alert(
                        str(document["patient"]),
                        str(document["level"]),
                        str(document["nurse"]),
                        str(document["ward"]),
                        int(document["since"]),
                    ),
                    int(document["at"]),
                )
        except (ValueError, KeyError, TypeError):
            return  # somebody else's record in these topics

    def _on_event(self, device: str, state: str, at_ms: int) -> None:
        if state == "offline":
            self.offline[device] = at_ms
            self.recent.appendleft((at_ms, f"{device} is offline", "warn"))
        else:
            self.offline.pop(device, None)
            self.recent.appendleft((at_ms, f"{device} is online again", "good"))
        while len(self.offline) > KEPT_MAX:
            self.offline.popitem(last=False)

    def _on_alert(self, alert: Alert, at_ms: int) -> None:
        if alert.level == "clear":
            self.alerting.pop(alert.patient, None)
            self.recent.appendleft((at_ms, f"{alert.patient}: all clear", "good"))
        else:
            self.alerting[alert.patient] = alert
            tone = "bad" if alert.level == "critical" else "warn"
            self.recent.appendleft(
                (at_ms, f"{alert.patient}: {alert.level}, {alert.nurse} on {alert.ward}", tone)
            )
        while len(self.alerting) > KEPT_MAX:
            self.alerting.popitem(last=False)
