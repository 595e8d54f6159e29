"""The sticky task assignor: who had a task keeps it, as far as that is even; processes share the rest by their load.

Active tasks go first to the member that had them, then to one that had a standby of them, then to the process with
the least load. Standbys go to other processes than their active task. Warm-up tasks are none, as in Kafka 4.3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.coordination.groups.streams.records import Task, TasksByRole
from ottla.frozen import frozen


@frozen
class AssignmentMember:
    process_id: str
    previous: TasksByRole


@frozen
class SubtopologyTasks:
    subtopology_id: str
    tasks: int
    is_stateful: bool


@dataclass(slots=True)
class _Process:
    process_id: str
    counts: dict[str, int] = field(default_factory=dict)  # tasks of each member
    tasks: set[Task] = field(default_factory=set)

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def least_loaded(self) -> str:
        return min(self.counts, key=lambda member_id: (self.counts[member_id], member_id))


def assign(
    members: Mapping[str, AssignmentMember], topology: Iterable[SubtopologyTasks], standbys: int
) -> dict[str, TasksByRole]:
    return _Assignment(members, list(topology), standbys).run()


class _Quota:
    """How many tasks a member gets before the others have had theirs; less to share once a member is full."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.of_member = self._share()

    def on_count(self, count: int) -> None:
        if count == self.of_member:
            self._members -= 1
            self._tasks -= count
            self.of_member = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    def __init__(
        self, members: Mapping[str, AssignmentMember], topology: list[SubtopologyTasks], standbys: int
    ) -> None:
        self._members, self._topology, self._standbys = members, topology, standbys
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[Task, str] = {}
        self._had_standby: dict[Task, list[str]] = {}
        for member_id, member in sorted(members.items()):
            process = self._processes.setdefault(member.process_id, _Process(member.process_id))
            process.counts[member_id] = 0
            self._had_active.update(dict.fromkeys(member.previous.active, member_id))
            for task in member.previous.standby:
                self._had_standby.setdefault(task, []).append(member_id)
        active = sum(part.tasks for part in topology)
        stateful = sum(part.tasks for part in topology if part.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * standbys, len(members))
        self._active: dict[str, set[Task]] = {member_id: set() for member_id in members}
        self._standby: dict[str, set[Task]] = {member_id: set() for member_id in members}

    def run(self) -> dict[str, TasksByRole]:
        if self._members:
            self._assign_active()
            if self._standbys:
                self._assign_standbys()
        return {
            member_id: TasksByRole(frozenset(self._active[member_id]), frozenset(self._standby[member_id]))
            for member_id in self._members
        }

    def _tasks(self, *, stateful_only: bool = False) -> list[Task]:
        return [
            (part.subtopology_id, number)
            for part in self._topology
            if part.is_stateful or not stateful_only
            for number in range(part.tasks)
        ]

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

    def _give(self, task: Task, member_id: str, *, active: bool) -> None:
        process = self._process(member_id)
        process.counts[member_id] += 1
        process.tasks.add(task)
        (self._active if active else self._standby)[member_id].add(task)
        if active:
            self._active_quota.on_count(process.counts[member_id])
        self._quota.on_count(process.counts[member_id])

    def _assign_active(self) -> None:
        tasks = sorted(self._tasks(), key=lambda task: (task[1], task[0]))
        left = []
        for task in tasks:
            member_id = self._had_active.get(task)
            if member_id is not None and self._count(member_id) < self._active_quota.of_member:
                self._give(task, member_id, active=True)
            else:
                left.append(task)
        still_left = []
        for task in left:
            member_id = self._least_loaded(self._had_standby.get(task, []))
            if member_id is not None and self._count(member_id) < self._active_quota.of_member:
                self._give(task, member_id, active=True)
            else:
                still_left.append(task)
        for task in sorted(still_left):
            process = min(self._processes.values(), key=lambda each: (each.load, each.process_id))
            self._give(task, process.least_loaded(), active=True)

    def _assign_standbys(self) -> None:
        open_standbys: list[tuple[Task, int]] = []
        tasks = sorted(self._tasks(stateful_only=True), key=lambda task: (task[1], task[0]), reverse=True)
        for task in tasks:
            for number in range(self._standbys):
                member_id = self._previous_holder(task)
                if member_id is None:
                    open_standbys.append((task, self._standbys - number))
                    break
                self._give(task, member_id, active=False)
        for task, count in sorted(open_standbys, reverse=True):
            for _ in range(count):
                fitting = [each for each in self._processes.values() if task not in each.tasks]
                if not fitting:
                    break  # fewer processes than replicas asked for
                process = min(fitting, key=lambda each: (each.load, each.process_id))
                self._give(task, process.least_loaded(), active=False)

    def _previous_holder(self, task: Task) -> str | None:
        """A member that still has the task's state, in a process that has nothing of the task, with room."""
        before = self._had_active.get(task)
        if before is not None and task not in self._process(before).tasks and self._has_room(before):
            return before
        others = [each for each in self._had_standby.get(task, []) if task not in self._process(each).tasks]
        member_id = self._least_loaded(others)
        return member_id if member_id is not None and self._has_room(member_id) else None

    def _has_room(self, member_id: str) -> bool:
        return self._count(member_id) < self._quota.of_member

    def _least_loaded(self, member_ids: list[str]) -> str | None:
        if not member_ids:
            return None
        return min(member_ids, key=lambda each: (self._process(each).load, self._count(each), each))
