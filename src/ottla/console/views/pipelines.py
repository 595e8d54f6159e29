"""Pipelines that run on Spark: their progress is in their groups' offsets, whether they run or not."""

import time
from dataclasses import dataclass

from ottla.console import words
from ottla.console.context import Context, NotFound
from ottla.console.model import Block, Cell, Chart, Column, Figure, Page, Row, Table
from ottla.console.sampler import Sampler, Snapshot
from ottla.pipelines import status
from ottla.pipelines.positions import Commit

RUNNING_MS = 15_000


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
    rows = []
    for name, each in sorted(found.items()):
        runs = now_ms - each.at_ms < RUNNING_MS
        rate = note_rate(sampler, each, snapshot.at)
        rows.append(
            Row(
                name,
                [
                    Cell(name, href=words.address("/pipeline", id=name)),
                    Cell("committing" if runs else "silent", tone="good" if runs else "quiet"),
                    Cell(len(each.commits)),
                    Cell(each.records, words.count(each.records)),
                    Cell(round(rate, 1), words.count(rate), unit="/s"),
                    Cell(each.lag, words.count(each.lag)),
                    Cell(each.state_bytes, words.size(each.state_bytes)),
                    Cell(each.latency_ms(0.5), words.duration(each.latency_ms(0.5))),
                    Cell(each.at_ms, words.ago(each.at_ms, now_ms) if each.at_ms else "-"),
                ],
            )
        )
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
    return Page(
        "Pipelines",
        "pipelines",
        subtitle=words.plural(len(found), "pipeline"),
        figures=[
            Figure("running", "Committing", sum(now_ms - each.at_ms < RUNNING_MS for each in found.values())),
            Figure(
                "lag",
                "Lag of all",
                sum(each.lag for each in found.values()),
                words.count(sum(each.lag for each in found.values())),
            ),
            Figure(
                "state",
                "State of all",
                sum(each.state_bytes for each in found.values()),
                words.size(sum(each.state_bytes for each in found.values())),
            ),
        ],
        blocks=[Table("pipelines", columns, rows, empty=empty)],
    )


async def pipeline(context: Context) -> Page:
    sampler = context.workspace.sampler
    snapshot = await sampler.fresh()
    name = context.query.get("id", "")
    each = all_of(snapshot).get(name)
    if each is None:
        raise NotFound(f"There is no pipeline {name}, or it has not committed yet.")
    rate = note_rate(sampler, each, snapshot.at)
    now_ms = time.time() * 1000
    rows = [
        Row(
            commit.task,
            [
                Cell(commit.task),
                Cell(commit.figures.records, words.count(commit.figures.records)),
                Cell(_behind(commit, snapshot), words.count(_behind(commit, snapshot))),
                Cell(commit.figures.written, words.count(commit.figures.written)),
                Cell(commit.figures.rows, words.count(commit.figures.rows)),
                Cell(commit.figures.bytes, words.size(commit.figures.bytes)),
                Cell(commit.figures.took_ms, words.duration(commit.figures.took_ms)),
                Cell(
                    commit.figures.at_ms,
                    words.ago(commit.figures.at_ms, now_ms) if commit.figures.at_ms else "-",
                ),
                Cell(commit.figures.host, commit.figures.host or "-", tone="quiet"),
            ],
        )
        for commit in each.commits
    ]
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
    seconds = 300
    blocks: list[Block] = [
        Chart(
            "rate",
            "Records read",
            [("records", sampler.history.get("pipeline", name).last(seconds, snapshot.at))],
            "/s",
        ),
        Chart("lag", "Lag", [("lag", sampler.history.get("group", name).last(seconds, snapshot.at))]),
        Table("tasks", columns, rows, "Stream tasks"),
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
        blocks=blocks,
        crumbs=[("Pipelines", "/pipelines")],
    )


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
