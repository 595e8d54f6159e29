"""The sticky task assignor: who had a task keeps it, as far as that is even; processes share the rest by their load.

Active tasks go first to the member that had them, then to one that had a standby of them, then to the process with
the least load. Standbys go to other processes than their active task. Warm-up tasks are none, as in Kafka 4.3.

The same members with the same tasks get the same from Kafka 4.3, ties included, but for the order of equal
processes and members at the beginning: here it is that of their ids, there that of Java's hash tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.coordination.groups.streams.least_loaded import LeastLoaded
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
    counts: dict[str, int] = field(default_factory=dict)  # tasks of each member
    total: int = 0  # of the counts
    tasks: set[Task] = field(default_factory=set)
    by_load: LeastLoaded[str] | None = None  # members, until one of them is given a task past it

    @property
    def load(self) -> float:
        return self.total / len(self.counts)

    def give(self, task: Task, member_id: str) -> None:
        self.counts[member_id] += 1
        self.total += 1
        self.tasks.add(task)
        self.by_load = None

    def give_to_least_loaded(self, task: Task) -> str:
        heap = self.by_load or LeastLoaded(self.counts, self.counts.__getitem__)
        member_id = heap.take()
        self.give(task, member_id)
        heap.add(member_id)
        self.by_load = heap
        return member_id


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
            process = self._processes.setdefault(member.process_id, _Process())
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
        self._process(member_id).give(task, member_id)
        self._note(task, member_id, active=active)

    def _note(self, task: Task, member_id: str, *, active: bool) -> None:
        (self._active if active else self._standby)[member_id].add(task)
        count = self._count(member_id)
        if active:
            self._active_quota.on_count(count)
        self._quota.on_count(count)

    def _by_load(self) -> LeastLoaded[_Process]:
        in_order = [self._processes[process_id] for process_id in sorted(self._processes)]
        return LeastLoaded(in_order, lambda process: process.load)

    def _assign_active(self) -> None:
        tasks = sorted(self._tasks(), key=lambda task: (task[1], task[0]))
        unassigned = []
        for task in tasks:
            member_id = self._had_active.get(task)
            if member_id is not None and self._count(member_id) < self._active_quota.of_member:
                self._give(task, member_id, active=True)
            else:
                unassigned.append(task)
        still_left = []
        for task in unassigned:
            member_id = self._least_loaded(self._had_standby.get(task, []))
            if member_id is not None and self._count(member_id) < self._active_quota.of_member:
                self._give(task, member_id, active=True)
            else:
                still_left.append(task)
        heap = self._by_load()
        for task in sorted(still_left):
            process = heap.take()
            self._note(task, process.give_to_least_loaded(task), active=True)
            heap.add(process)

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
        heap = self._by_load()
        for task, count in sorted(open_standbys, reverse=True):
            for _ in range(count):
                if not self._assign_standby(task, heap):
                    break  # fewer processes than replicas asked for

    def _assign_standby(self, task: Task, heap: LeastLoaded[_Process]) -> bool:
        """To the process with the least load of those that have nothing of the task."""
        passed_over = []
        process = None
        while heap and process is None:
            candidate = heap.take()
            if task in candidate.tasks:
                passed_over.append(candidate)
            else:
                process = candidate
        if process is not None:
            self._note(task, process.give_to_least_loaded(task), active=False)
            heap.add(process)
        for other in reversed(passed_over):
            heap.add(other)
        return process is not None

    def _previous_holder(self, task: Task) -> str | None:
        """A member that still has the task's state, in a process that has nothing of the task, with room."""
        before = self._had_active.get(task)
        if before is not None and task not in self._process(before).tasks and self._has_room(before):
            return before
        holders = self._had_standby.get(task, [])
        if not holders or task in self._process(holders[0]).tasks:
            return None
        member_id = self._least_loaded(holders, without=task)
        return member_id if member_id is not None and self._has_room(member_id) else None

    def _has_room(self, member_id: str) -> bool:
        return self._count(member_id) < self._quota.of_member

    def _least_loaded(self, member_ids: list[str], without: Task | None = None) -> str | None:
        """The first one, unless both another's process and that member have less to do."""
        least: str | None = None
        for member_id in member_ids:
            process = self._process(member_id)
            if least is None or (
                without not in process.tasks
                and process.load < self._process(least).load
                and self._count(member_id) < self._count(least)
            ):
                least = member_id
        return least
