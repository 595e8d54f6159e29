"""The driver of a pipeline: alone in charge of its group, asks the cluster what there is to do."""

import logging
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ottla import errors
from ottla.client.admin import Admin
from ottla.client.session import EARLIEST, LATEST, Session, commit, committed, list_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.static_member import StaticMember
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.pipelines.errors import SessionEnded, StateLost, TakenOver
from ottla.pipelines.layout import Layout, lay_out
from ottla.pipelines.planning import Moment, Planner
from ottla.pipelines.positions import Commit, read_commit
from ottla.pipelines.state.spec import StoreChanged
from ottla.pipelines.stepping import Work
from ottla.pipelines.topology import EXACTLY_ONCE, Pipeline, TaskId
from ottla.spark.news import News

log = logging.getLogger(__name__)
_PURGE_S = 30.0
# Of tables and aggregates; of joins, as KSTREAM-JOINTHIS-0000000005-store.
_NUMBERED = re.compile(r"(-STATE-STORE-\d{10}|^K(STREAM|TABLE)-[A-Z-]+-\d{10}-[a-z-]+)$")
_FORGOTTEN = (errors.UnknownMemberId, errors.IllegalGeneration)


def refuse_renumbered(pipeline: Pipeline, commits: Iterable[Commit]) -> None:
    """A store that is named by a number has another name when the program before it changes: its rows would be left
    behind under the old name."""
    known = {name for commit in commits for name in commit.ends}
    current = {store.name for stage in pipeline.stages for store in stage.stores}
    gone, new = (sorted(filter(_NUMBERED.search, names)) for names in (known - current, current - known))
    if gone and new:
        raise StoreChanged(
            f"store {gone[0]} of pipeline {pipeline.name} has rows, but the program has no such store now; it has "
            f"{new[0]}, which has none. Stores without a name are numbered by their place in the program: give "
            "them names (name=...), then reset the pipeline once, or take the change back"
        )


class Driver:
    """Blocking. `start` first; then `plan` as often as wanted."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._member = StaticMember(pipeline.client, pipeline.name, pipeline.name)
        self._session = Session("pipeline driver", ConsumerSettings.parse(pipeline.client))
        self._cluster = self._session.cluster()
        self._news = News(self._session.cluster(), read_committed=True)
        self._admin = Admin(pipeline.client)
        self._frozen: Moment | None = None
        self._purged = time.monotonic()
        self.moment: Moment | None = None

    def start(self) -> None:
        """Takes the pipeline over from an earlier driver, and makes what a new one needs."""
        self.layout: Layout = lay_out(self._pipeline, self._admin)
        self._planner = Planner(self._pipeline, self.layout)
        self._inputs = {task: self._planner.inputs(task) for task in self.layout.all()}
        self._member.join({where.topic for inputs in self._inputs.values() for where in inputs})
        self._begin_new_tasks()
        self.moment = self._look()
        refuse_renumbered(self._pipeline, self.moment.commits.values())

    def member(self) -> GroupMetadata:
        try:
            return self._member.metadata()
        except errors.FencedInstanceId as error:
            raise TakenOver(f"another driver runs pipeline {self._pipeline.name} now: {error}") from error
        except _FORGOTTEN as error:
            raise SessionEnded(
                f"pipeline {self._pipeline.name} must join its group again: {error}"
            ) from error

    def freeze(self) -> None:
        """From now on only what has come by now is read; internal topics are read to their end."""
        moment = self._look()
        external = set(self._planner.external())
        ends = {where: end for where, end in moment.stable.items() if where in external}
        self._frozen = Moment(moment.now_ms, moment.commits, ends, ends)

    @property
    def is_frozen(self) -> bool:
        return self._frozen is not None

    def plan(self) -> list[Work]:
        self.member()
        self.moment = self._look()
        self._purge(self.moment.commits)
        return self._planner.plan(self.moment, self._frozen)

    def wait(self) -> None:
        """Returns when there is more to read than at the last look, or after a second."""
        assert self.moment is not None, "start first"
        self._session.run(self._news.wait(self.moment.stable))

    def behind(self) -> int:
        """Records that are there and not read."""
        if self.moment is None:
            return 0
        moment = self.moment
        return sum(
            max(0, moment.highs[where] - at)
            for before in moment.commits.values()
            for where, at in before.offsets.items()
            if where in moment.highs
        )

    def close(self) -> None:
        self._member.close()
        self._session.close()
        self._admin.close()

    # -- what the cluster says ---------------------------------------------------------------------

    def _look(self) -> Moment:
        now_ms = int(time.time() * 1000)
        commits = self._commits()
        wanted = [where for inputs in self._inputs.values() for where in inputs]
        return Moment(
            now_ms, commits, self._offsets(wanted, LATEST, stable=True), self._offsets(wanted, LATEST)
        )

    def _commits(self) -> dict[TaskId, Commit]:
        group_offsets = self._committed()
        return {task: read_commit(task, inputs, group_offsets) for task, inputs in self._inputs.items()}

    def _committed(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        wanted = [where for inputs in self._inputs.values() for where in inputs]
        return self._session.run(committed(self._cluster, self._pipeline.name, wanted))

    def _offsets(
        self, wanted: Iterable[TopicPartition], at: int, *, stable: bool = False
    ) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(wanted, at)
        if not asked:
            return {}
        offsets = self._session.run(list_offsets(self._cluster, asked, committed_only=stable))
        return {where: answer.offset for where, answer in offsets.items()}

    # -- new stream tasks --------------------------------------------------------------------------

    def _begin_new_tasks(self) -> None:
        """Every stream task has positions before its first step, so a step without one knows that they were lost."""
        group_offsets = self._committed()
        missing = [
            where for inputs in self._inputs.values() for where in inputs if where not in group_offsets
        ]
        if not missing:
            return
        self._refuse_lost(group_offsets)
        begins = self._offsets(missing, EARLIEST if self._pipeline.start == "earliest" else LATEST)
        texts = {task: self._text(task, group_offsets, inputs) for task, inputs in self._inputs.items()}
        offsets = {
            where: OffsetAndMetadata(begins[where], texts[task])
            for task, inputs in self._inputs.items()
            for where in inputs
            if where in begins
        }
        self._session.run(commit(self._cluster, self.member(), offsets))

    def _text(
        self,
        task: TaskId,
        group_offsets: Mapping[TopicPartition, OffsetAndMetadata],
        inputs: list[TopicPartition],
    ) -> str:
        """An input that is new to a stream task joins the others' commit."""
        known = [group_offsets[where].metadata for where in inputs if where in group_offsets]
        is_exact = self._pipeline.guarantee == EXACTLY_ONCE
        return known[0] if known else Commit({}, task=str(task), is_exact=is_exact).to_metadata()

    def _refuse_lost(self, group_offsets: Mapping[TopicPartition, Any]) -> None:
        """Offsets expire; a changelog does not. Beginning again beside old state would count twice."""
        fresh = [
            task
            for task, inputs in self._inputs.items()
            if not any(where in group_offsets for where in inputs)
        ]
        changelogs = {
            TopicPartition(self._pipeline.changelog(store.name), task.partition): task
            for task in fresh
            for store in self._pipeline.stage(task.stage).stores
        }
        begins, ends = self._offsets(changelogs, EARLIEST), self._offsets(changelogs, LATEST)
        for where, task in changelogs.items():
            if ends[where] > begins[where]:
                raise StateLost(
                    f"{task} has no committed positions, but its changelog {where} has records: the offsets of group "
                    f"{self._pipeline.name} were deleted or have expired. Reset the pipeline to begin again"
                )

    def _purge(self, commits: Mapping[TaskId, Commit]) -> None:
        """Deletes records of repartition topics that every reader has committed."""
        if not self._pipeline.repartitions or time.monotonic() - self._purged < _PURGE_S:
            return
        self._purged = time.monotonic()
        internal = {self._pipeline.topic(repartition.name) for repartition in self._pipeline.repartitions}
        read = {
            where: offset
            for before in commits.values()
            for where, offset in before.offsets.items()
            if where.topic in internal and offset > 0
        }
        try:
            self._admin.delete_records(read)
        except errors.OttlaError as error:
            log.warning("records that were read could not be deleted from %s: %s", ", ".join(internal), error)
