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
    pipelines = {}
    for name, group in snapshot.groups.items():
        if any(offset.metadata.startswith('{"v":') for offset in group.offsets.values()):
            commits = status.commits(group.offsets)
            if commits:
                pipelines[name] = Pipeline(
                    name, commits, sum(_behind(commit, snapshot) for commit in commits)
                )
    return pipelines


def _behind(commit: Commit, snapshot: Snapshot) -> int:
    return sum(max(0, snapshot.ends.get(where, at) - at) for where, at in commit.offsets.items())


async def pipelines(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    pipelines = all_of(snapshot)
    now_ms = time.time() * 1000
    rows = [
        _row(pipeline, note_rate(sampler, pipeline, snapshot.at), now_ms)
        for _, pipeline in sorted(pipelines.items())
    ]
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
    lag = sum(pipeline.lag for pipeline in pipelines.values())
    size = sum(pipeline.state_bytes for pipeline in pipelines.values())
    return Page(
        "Pipelines",
        "pipelines",
        subtitle=words.plural(len(pipelines), "pipeline"),
        figures=[
            Figure("running", "Committing", sum(_runs(pipeline, now_ms) for pipeline in pipelines.values())),
            Figure("lag", "Lag of all", lag, words.count(lag)),
            Figure("state", "State of all", size, words.size(size)),
        ],
        blocks=[Table("pipelines", columns, rows, empty=empty)],
        tabs=flow_tabs("/pipelines"),
        links=_spark(context),
    )


def _runs(pipeline: Pipeline, now_ms: float) -> bool:
    return now_ms - pipeline.at_ms < RUNNING_MS


def _row(pipeline: Pipeline, rate: float, now_ms: float) -> Row:
    runs = _runs(pipeline, now_ms)
    cells = [
        Cell(pipeline.name, href=words.address("/pipeline", id=pipeline.name)),
        Cell("committing" if runs else "silent", tone="good" if runs else "quiet"),
        Cell(len(pipeline.commits)),
        Cell(pipeline.records, words.count(pipeline.records)),
        Cell(round(rate, 1), words.count(rate), unit="/s"),
        Cell(pipeline.lag, words.count(pipeline.lag)),
        Cell(pipeline.state_bytes, words.size(pipeline.state_bytes)),
        Cell(pipeline.latency_ms(0.5), words.duration(pipeline.latency_ms(0.5))),
        Cell(pipeline.at_ms, words.ago(pipeline.at_ms, now_ms) if pipeline.at_ms else "-"),
    ]
    return Row(pipeline.name, cells)


def _spark(context: Context) -> list[tuple[str, str]]:
    address = context.console.config.spark
    return [("Spark's page", address)] if address else []


async def pipeline(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    name = context.query.get("id", "")
    pipeline = all_of(snapshot).get(name)
    if pipeline is None:
        raise NotFound(f"There is no pipeline {name}, or it has not committed yet.")
    rate = note_rate(sampler, pipeline, snapshot.at)
    charts = [("rate", "Records read", "records", "pipeline", "/s"), ("lag", "Lag", "lag", "group", "")]
    blocks: list[Block] = [
        Chart(key, title, [(line, sampler.history.get(kind, name).last(CHART_S, snapshot.at))], unit)
        for key, title, line, kind, unit in charts
    ]
    inputs = sorted({where.topic for commit in pipeline.commits for where in commit.offsets})
    return Page(
        name,
        "pipelines",
        subtitle=f"reads {', '.join(inputs)}",
        figures=[
            Figure("rate", "Rate", round(rate, 1), words.count(rate), "/s"),
            Figure("lag", "Lag", pipeline.lag, words.count(pipeline.lag)),
            Figure("state", "State", pipeline.state_bytes, words.size(pipeline.state_bytes)),
            Figure(
                "p50", "Latency, median", pipeline.latency_ms(0.5), words.duration(pipeline.latency_ms(0.5))
            ),
            Figure(
                "p99", "Latency, 99 %", pipeline.latency_ms(0.99), words.duration(pipeline.latency_ms(0.99))
            ),
        ],
        blocks=[*blocks, _tasks(pipeline, snapshot)],
        crumbs=[("Pipelines", "/pipelines")],
        links=_spark(context),
    )


def _tasks(pipeline: Pipeline, snapshot: Snapshot) -> Table:
    now_ms = time.time() * 1000
    rows = []
    for commit in pipeline.commits:
        figures, behind = commit.figures, _behind(commit, snapshot)
        cells = [
            Cell(commit.task),
            Cell(figures.records, words.count(figures.records)),
            Cell(behind, words.count(behind)),
            Cell(figures.written, words.count(figures.written)),
            Cell(figures.rows, words.count(figures.rows)),
            Cell(figures.bytes, words.size(figures.bytes)),
            Cell(figures.took_ms, words.duration(figures.took_ms)),
            Cell(figures.at_ms, words.ago(figures.at_ms, now_ms) if figures.at_ms else "-"),
            Cell(figures.host, figures.host or "-", tone="quiet"),
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


def note_rate(sampler: Sampler, pipeline: Pipeline, now: float) -> float:
    """Records a second since the last look, from the positions: they move with every commit."""
    position = float(sum(at for commit in pipeline.commits for at in commit.offsets.values()))
    totals = sampler.history.get("pipeline-position", pipeline.name)
    before = totals.last(5, now)
    if not before or before[-1][0] < now:
        if before:
            elapsed = max(now - before[-1][0], 0.001)
            sampler.history.add("pipeline", pipeline.name, now, max(0.0, position - before[-1][1]) / elapsed)
        sampler.history.add("pipeline-position", pipeline.name, now, position)
    return sampler.history.get("pipeline", pipeline.name).latest(5)
