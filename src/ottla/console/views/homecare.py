"""The home care board: devices, alerts, billing, rates and latencies while the demo runs."""

from ottla.console import board, words
from ottla.console.context import Context
from ottla.console.model import (
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Moment,
    Notice,
    Notices,
    Page,
    Row,
    Table,
    Timeline,
)
from ottla.console.sampler import Snapshot
from ottla.console.views.pipelines import Pipeline, all_of, note_rate

JOBS = ("technician", "nurse", "billing")
_WORK = {
    "technician": "notices devices that fall silent",
    "nurse": "alerts nurses",
    "billing": "adds up services",
}


async def homecare(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    missing = [topic for topic in board.TOPICS if topic not in snapshot.topics]
    if missing:
        return _absent(missing)
    state: board.Board = context.workspace.board
    await state.look(context.workspace)
    jobs = {name: job for name in JOBS if (job := all_of(snapshot).get(f"homecare-{name}")) is not None}
    for name, job in jobs.items():
        note_rate(sampler, job, snapshot.at)
        if (latency := job.latency_ms(0.5)) is not None:
            sampler.history.add("latency", name, snapshot.at, latency)
    return Page(
        "Home care",
        "homecare",
        subtitle="devices, nurses and billing as they are now",
        figures=_figures(context, state, jobs),
        blocks=[
            *_charts(context, snapshot, jobs),
            _jobs(context, jobs),
            _alerts(state),
            _offline(state),
            _recent(state),
        ],
    )


def _absent(missing: list[str]) -> Page:
    lacking = ", ".join(missing)
    text = f"Home care does not run on this cluster: there is no topic {lacking}. `ottla homecare demo` starts it."
    notices = Notices("absent", [Notice("quiet", text)])
    return Page("Home care", "homecare", "the demo of devices, nurses and billing", blocks=[notices])


def _figures(context: Context, state: board.Board, jobs: dict[str, Pipeline]) -> list[Figure]:
    devices = jobs["technician"].shown("devices") if "technician" in jobs else None
    offline = jobs["technician"].shown("offline") if "technician" in jobs else None
    offline = len(state.offline) if offline is None else offline
    online = None if devices is None else devices - offline
    alerting, rate = len(state.alerting), _rate(context, board.HEARTBEAT, board.VITALS, board.BILLING)
    critical = any(alert.level == "critical" for alert in state.alerting.values())
    tone = "bad" if critical else "warn" if alerting else ""
    cents = jobs["billing"].shown("cents") if "billing" in jobs else None
    billed = None if cents is None else cents / 100
    return [
        Figure("online", "Devices online", online, words.count(online), tone="good-text" if online else ""),
        Figure("offline", "Offline", offline, words.count(offline), tone="warn" if offline else ""),
        Figure("alerts", "Patients with an alert", alerting, words.count(alerting), tone=tone),
        Figure("billed", "Billed", billed, "-" if billed is None else f"{billed:,.2f}"),
        Figure("rate", "Messages in", rate, words.count(rate), "/s"),
    ]


def _rate(context: Context, *topics: str) -> float:
    return round(sum(context.workspace.sampler.history.get("topic", topic).latest(5) for topic in topics), 1)


def _charts(context: Context, snapshot: Snapshot, jobs: dict[str, Pipeline]) -> list[Block]:
    history, now = context.workspace.sampler.history, snapshot.at
    streams = [("heartbeats", board.HEARTBEAT), ("vitals", board.VITALS), ("services", board.BILLING)]
    charts: list[Block] = [
        Chart(
            "messages",
            "Messages in",
            [(label, history.get("topic", t).last(300, now)) for label, t in streams],
            "/s",
        )
    ]
    if jobs:
        charts.append(
            Chart(
                "latency",
                "From event to committed result, median",
                [(name, history.get("latency", name).last(300, now)) for name in jobs],
                "ms",
            )
        )
    return charts


def _jobs(context: Context, jobs: dict[str, Pipeline]) -> Table:
    rows = []
    for name, job in jobs.items():
        rate = context.workspace.sampler.history.get("pipeline", job.name).latest(5)
        rows.append(
            Row(
                name,
                [
                    Cell(name, href=words.address("/pipeline", id=job.name)),
                    Cell(_WORK[name], tone="quiet"),
                    Cell(round(rate, 1), words.count(rate), unit="/s"),
                    Cell(job.lag, words.count(job.lag)),
                    Cell(job.latency_ms(0.5), words.duration(job.latency_ms(0.5))),
                    Cell(job.latency_ms(0.99), words.duration(job.latency_ms(0.99))),
                    Cell(job.written, words.count(job.written)),
                ],
            )
        )
    columns = [
        Column("pipeline", "Pipeline"),
        Column("work", "Does", priority=2),
        Column("rate", "Rate", "number"),
        Column("lag", "Lag", "number"),
        Column("p50", "Latency", "number"),
        Column("p99", "99 %", "number", 2),
        Column("written", "Results", "number", 2),
    ]
    return Table("jobs", columns, rows, "Pipelines", "Spark is starting: no pipeline has committed yet.")


def _alerts(state: board.Board) -> Table:
    alerts = sorted(state.alerting.values(), key=lambda alert: (alert.level != "critical", alert.since_ms))[
        :50
    ]
    rows = [
        Row(
            alert.patient,
            [
                Cell(alert.patient),
                Cell(alert.level, tone="bad" if alert.level == "critical" else "warn"),
                Cell(alert.nurse),
                Cell(alert.ward, tone="quiet"),
                Cell(alert.since_ms, words.ago(alert.since_ms)),
            ],
        )
        for alert in alerts
    ]
    columns = [
        Column("patient", "Patient"),
        Column("level", "Level", "state"),
        Column("nurse", "Nurse"),
        Column("ward", "Ward", priority=2),
        Column("since", "Since", "number"),
    ]
    return Table("alerts", columns, rows, "Alerts", "No patient is out of range.")


def _offline(state: board.Board) -> Table:
    newest = list(reversed(state.offline.items()))[:50]
    rows = [Row(device, [Cell(device), Cell(since, words.ago(since))]) for device, since in newest]
    return Table(
        "offline",
        [Column("device", "Device"), Column("since", "Silent since", "number")],
        rows,
        "Devices that are offline",
        "All devices send.",
    )


def _recent(state: board.Board) -> Timeline:
    return Timeline(
        "recent",
        [Moment(at_ms, text, tone) for at_ms, text, tone in state.recent],
        "What happened",
        "Nothing has happened yet.",
    )
