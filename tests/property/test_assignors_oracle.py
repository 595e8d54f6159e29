"""Assignors of streams and share groups beside Apache Kafka's own classes: random groups, the same assignments.

Kafka goes through members, processes and partitions in the order of Java's hash tables, we in that of their ids. The
ids of streams groups here have hashes in the same order, so the assignments are equal. Of share groups they are
equal but for which of two partitions a member gets that both have too few members.
"""

import random
import subprocess
from collections import Counter

import pytest

from ottla.coordination.groups.assignors import Subscriber, simple
from ottla.coordination.groups.streams import records as r
from ottla.coordination.groups.streams.assignor import AssignmentMember, SubtopologyTasks, assign
from tests.oracle import programs

SAMPLES = 1500
NAMES = "0123456789:;<=>?"  # neighbours of one character: their hashes are neighbours too

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]


def kafkas(lines):
    done = subprocess.run(
        programs.command("Assignors"),
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [
        dict(row.partition("|")[::2] for row in line.split(";") if row) for line in done.stdout.splitlines()
    ]


def tasks_of(text):
    return frozenset((each[:1], int(each[2:])) for each in text.split(",") if each)


def listed(tasks):
    return ",".join(f"{name}:{number}" for name, number in sorted(tasks))


# Streams groups


class StreamsGroup:
    """Members of some processes; what they had is what an assignor gave to other members, or nonsense."""

    def __init__(self, chance):
        self.standbys = chance.randint(0, 2)
        self.parts = [
            SubtopologyTasks(NAMES[i], chance.randint(1, 6), chance.random() < 0.6)
            for i in range(chance.randint(1, 3))
        ]
        before = assign(self.members(chance, {}), self.parts, chance.randint(0, 2))
        if chance.random() < 0.3:
            before = {name: self.anything(chance) for name in before}
        self.now = self.members(chance, before)

    def members(self, chance, before):
        count = chance.randint(1, 8)
        processes = chance.randint(1, count)
        return {
            NAMES[i]: AssignmentMember(
                NAMES[i if i < processes else chance.randrange(processes)],
                before.get(NAMES[i], r.NOTHING_WANTED),
            )
            for i in range(count)
        }

    def anything(self, chance):
        tasks = [(part.subtopology_id, number) for part in self.parts for number in range(part.tasks)]
        picked = [task for task in tasks if chance.random() < 0.5]
        half = len(picked) // 2
        return r.TasksByRole(frozenset(picked[:half]), frozenset(picked[half:]))

    def line(self):
        parts = ";".join(f"{each.subtopology_id}|{each.tasks}|{each.is_stateful:d}" for each in self.parts)
        members = ";".join(
            f"{name}|{each.process_id}|{listed(each.previous.active)}|{listed(each.previous.standby)}"
            for name, each in sorted(self.now.items())
        )
        return f"streams\t{self.standbys}\t{parts}\t{members}"


def test_tasks_go_to_the_members_that_kafka_chooses():
    chance = random.Random(20261117)
    groups = [StreamsGroup(chance) for _ in range(SAMPLES)]
    for group, rows in zip(groups, kafkas(group.line() for group in groups), strict=True):
        theirs = {name: tuple(map(tasks_of, row.split("|"))) for name, row in rows.items()}
        ours = {
            name: (target.active, target.standby)
            for name, target in assign(group.now, group.parts, group.standbys).items()
        }
        assert ours == theirs, group.line()


# Share groups


class ShareGroup:
    def __init__(self, chance):
        self.counts = {NAMES[i]: chance.randint(1, 4) for i in range(chance.randint(1, 4))}
        alike = chance.random() < 0.6
        first = self.members(chance, {}, alike=alike)
        self.now = self.members(chance, assigned(first, self.counts), alike=alike)

    def members(self, chance, before, *, alike):
        picked = sorted(chance.sample(range(10), chance.randint(1, 10)))
        return {
            NAMES[i]: (sorted(self.counts) if alike else self.some(chance), before.get(NAMES[i], ()))
            for i in picked
        }

    def some(self, chance):
        return sorted(chance.sample(sorted(self.counts), chance.randint(1, len(self.counts))))

    def line(self):
        counts = ";".join(f"{name}|{count}" for name, count in self.counts.items())
        members = ";".join(
            f"{name}|{','.join(topics)}|{listed(had)}" for name, (topics, had) in self.now.items()
        )
        return f"share\t{counts}\t{members}"


def assigned(members, counts):
    subscribers = {
        name: Subscriber(
            frozenset(topic.encode() for topic in topics),
            frozenset((topic.encode(), number) for topic, number in had),
        )
        for name, (topics, had) in members.items()
    }
    targets = simple.assign(subscribers, {name.encode(): count for name, count in counts.items()})
    return {
        name: frozenset((topic.decode(), number) for topic, number in target)
        for name, target in targets.items()
    }


def shape(members, targets):
    """How many partitions each member has and keeps, and how many members each partition has."""
    kept = {name: len(targets[name].intersection(had)) for name, (_, had) in members.items()}
    sizes = {name: len(target) for name, target in targets.items()}
    return sizes, kept, Counter(each for target in targets.values() for each in target)


def test_partitions_of_share_groups_have_as_many_members_as_in_kafka():
    chance = random.Random(20261117)
    groups = [ShareGroup(chance) for _ in range(SAMPLES)]
    for group, rows in zip(groups, kafkas(group.line() for group in groups), strict=True):
        wanted = {topic for topics, _ in group.now.values() for topic in topics}
        # Kafka leaves a topic with its last member although nobody wants it any more.
        theirs = {
            name: frozenset(each for each in tasks_of(row) if each[0] in wanted) for name, row in rows.items()
        }
        assert shape(group.now, assigned(group.now, group.counts)) == shape(group.now, theirs), group.line()
