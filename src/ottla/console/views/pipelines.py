"""Pipelines that run on Spark: their progress is in their groups' offsets, whether they run or not."""

import time
from dataclasses import dataclass

from ottla.console import words
from ottla.console.context import Context, NotFound
from ottla.console.model import Block, Cell, Chart, Column, Figure, Page, Row, Table
from ottla.console.sampler import Sampler, Snapshot
from ottla.console.views.connectors import flow_tabs
from ottla.pipelines import status
from ottla.pipelines.positions import Commit

RUNNING_MS = 15_000
CHART_S = 300


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All stream tasks of a pipeline together."""

    name: str
    commits: list[Commit]
    lag: int

    @property
    def records(self) -> int:
        return sum(commit.figures.records for commit in self.commits)

    @property
    def written(self) -> int:
        return sum(commit.figures.written for commit in self.commits)

    @property
    def state_bytes(self) -> int:
        return sum(commit.figures.bytes for commit in self.commits)

    @property
    def state_rows(self) -> int:
        return sum(commit.figures.rows for commit in self.commits)

    @property
    def at_ms(self) -> int:
        return max((commit.figures.at_ms for commit in self.commits), default=0)

    @property
    def ages_ms(self) -> list[int]:
        return sorted(age for commit in self.commits for age in commit.figures.ages_ms)

    def shown(self, name: str) -> int | None:
        """What the pipeline's operators show under this name, over all tasks."""
        values = [commit.figures.shown[name] for commit in self.commits if name in commit.figures.shown]
        return sum(values) if values else None

    def latency_ms(self, share: float) -> int | None:
        ages = self.ages_ms
        return ages[min(len(ages) - 1, int(len(ages) * share))] if ages else None


def all_of(snapshot: Snapshot) -> dict[str, Pipeline]:
    """From what the sampler has already asked for."""
    found = {}
    for name, group in snapshot.groups.items():
        if any(told.metadata.startswith('{"v":') for told in group.offsets.values()):
            commits = status.commits(group.offsets)
            if commits:
                found[name] = Pipeline(name, commits, sum(_behind(commit, snapshot) for commit in commits))
    return found


def _behind(commit: Commit, snapshot: Snapshot) -> int:
    return sum(max(0, snapshot.ends.get(where, at) - at) for where, at in commit.offsets.items())


async def pipelines(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    found = all_of(snapshot)
    now_ms = time.time() * 1000
    rows = [_row(each, note_rate(sampler, each, snapshot.at), now_ms) for _, each in sorted(found.items())]
    columns = [
        Column("pipeline", "Pipeline"),
        Column("state", "State", "state"),
        Column("tasks", "Tasks", "number", 2),
        Column("records", "Records read", "number", 2),
        Column("rate", "Rate", "number"),
        Column("lag", "Lag", "number"),
        Column("bytes", "State", "number", 2),
        Column("latency", "Latency", "number", 2),
        Column("last", "Last commit", "number", 3),
    ]
    empty = "No pipeline has committed yet. `ottla homecare demo` starts three."
    lag = sum(each.lag for each in found.values())
    size = sum(each.state_bytes for each in found.values())
    return Page(
        "Pipelines",
        "pipelines",
        subtitle=words.plural(len(found), "pipeline"),
        figures=[
            Figure("running", "Committing", sum(_runs(each, now_ms) for each in found.values())),
            Figure("lag", "Lag of all", lag, words.count(lag)),
            Figure("state", "State of all", size, words.size(size)),
        ],
        blocks=[Table("pipelines", columns, rows, empty=empty)],
        tabs=flow_tabs("/pipelines"),
        links=_spark(context),
    )


def _runs(each: Pipeline, now_ms: float) -> bool:
    return now_ms - each.at_ms < RUNNING_MS


def _row(each: Pipeline, rate: float, now_ms: float) -> Row:
    runs = _runs(each, now_ms)
    cells = [
        Cell(each.name, href=words.address("/pipeline", id=each.name)),
        Cell("committing" if runs else "silent", tone="good" if runs else "quiet"),
        Cell(len(each.commits)),
        Cell(each.records, words.count(each.records)),
        Cell(round(rate, 1), words.count(rate), unit="/s"),
        Cell(each.lag, words.count(each.lag)),
        Cell(each.state_bytes, words.size(each.state_bytes)),
        Cell(each.latency_ms(0.5), words.duration(each.latency_ms(0.5))),
        Cell(each.at_ms, words.ago(each.at_ms, now_ms) if each.at_ms else "-"),
    ]
    return Row(each.name, cells)


def _spark(context: Context) -> list[tuple[str, str]]:
    address = context.console.config.spark
    return [("Spark's page", address)] if address else []


async def pipeline(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    name = context.query.get("id", "")
    each = all_of(snapshot).get(name)
    if each is None:
        raise NotFound(f"There is no pipeline {name}, or it has not committed yet.")
    rate = note_rate(sampler, each, snapshot.at)
    charts = [("rate", "Records read", "records", "pipeline", "/s"), ("lag", "Lag", "lag", "group", "")]
    blocks: list[Block] = [
        Chart(key, title, [(line, sampler.history.get(kind, name).last(CHART_S, snapshot.at))], unit)
        for key, title, line, kind, unit in charts
    ]
    inputs = sorted({where.topic for commit in each.commits for where in commit.offsets})
    return Page(
        name,
        "pipelines",
        subtitle=f"reads {', '.join(inputs)}",
        figures=[
            Figure("rate", "Rate", round(rate, 1), words.count(rate), "/s"),
            Figure("lag", "Lag", each.lag, words.count(each.lag)),
            Figure("state", "State", each.state_bytes, words.size(each.state_bytes)),
            Figure("p50", "Latency, median", each.latency_ms(0.5), words.duration(each.latency_ms(0.5))),
            Figure("p99", "Latency, 99 %", each.latency_ms(0.99), words.duration(each.latency_ms(0.99))),
        ],
        blocks=[*blocks, _tasks(each, snapshot)],
        crumbs=[("Pipelines", "/pipelines")],
        links=_spark(context),
    )


def _tasks(each: Pipeline, snapshot: Snapshot) -> Table:
    now_ms = time.time() * 1000
    rows = []
    for commit in each.commits:
        told, behind = commit.figures, _behind(commit, snapshot)
        cells = [
            Cell(commit.task),
            Cell(told.records, words.count(told.records)),
            Cell(behind, words.count(behind)),
            Cell(told.written, words.count(told.written)),
            Cell(told.rows, words.count(told.rows)),
            Cell(told.bytes, words.size(told.bytes)),
            Cell(told.took_ms, words.duration(told.took_ms)),
            Cell(told.at_ms, words.ago(told.at_ms, now_ms) if told.at_ms else "-"),
            Cell(told.host, told.host or "-", tone="quiet"),
        ]
        rows.append(Row(commit.task, cells))
    columns = [
        Column("task", "Task"),
        Column("records", "Records", "number"),
        Column("lag", "Lag", "number"),
        Column("written", "Written", "number", 2),
        Column("rows", "State rows", "number", 2),
        Column("bytes", "State", "number", 2),
        Column("took", "Step took", "number", 3),
        Column("last", "Last commit", "number", 2),
        Column("host", "Host", priority=3),
    ]
    return Table("tasks", columns, rows, "Stream tasks")


def note_rate(sampler: Sampler, each: Pipeline, now: float) -> float:
    """Records a second since the last look, from the positions: they move with every commit."""
    position = float(sum(at for commit in each.commits for at in commit.offsets.values()))
    totals = sampler.history.get("pipeline-position", each.name)
    before = totals.last(5, now)
    if not before or before[-1][0] < now:
        if before:
            elapsed = max(now - before[-1][0], 0.001)
            sampler.history.add("pipeline", each.name, now, max(0.0, position - before[-1][1]) / elapsed)
        sampler.history.add("pipeline-position", each.name, now, position)
    return sampler.history.get("pipeline", each.name).latest(5)
