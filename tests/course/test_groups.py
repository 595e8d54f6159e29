"""Groups as courses tell them: who owns what, who takes over, queue or broadcast, and how far behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ottla
from tests.course.faces import Api, Member, Ours, Seen, members, read, until

Unique = Callable[[str], str]


def numbered(count: int) -> list[tuple[str | None, str | None]]:
    return [(None, f"message {i}") for i in range(count)]


def test_two_listeners_of_one_group_own_a_partition_each(api: Api, unique: Unique) -> None:
    topic, group = unique("DemoTopic"), unique("listeners")
    api.create(topic, 2)
    one, two = api.member(group, [topic]), api.member(group, [topic])
    with members(one, two):
        until(lambda: len(one.owned()) == len(two.owned()) == 1, [one, two])
        assert one.owned() | two.owned() == {(topic, 0), (topic, 1)}


def test_four_partitions_among_one_two_four_and_five_consumers(api: Api, unique: Unique) -> None:
    topic, group = unique("four"), unique("g")
    api.create(topic, 4)
    everything = {(topic, p) for p in range(4)}
    team: list[Member] = []
    try:
        for size, shares in ((1, [4]), (2, [2, 2]), (4, [1, 1, 1, 1]), (5, [0, 1, 1, 1, 1])):
            while len(team) < size:
                team.append(api.member(group, [topic]))

            def shared(shares: list[int] = shares) -> bool:
                owned = [m.owned() for m in team]
                return sorted(map(len, owned)) == shares and set().union(*owned) == everything

            until(shared, team, f"{size} consumers never shared {shares}")
    finally:
        with members(*team):
            pass


def test_the_idle_consumer_takes_over_at_the_committed_offset(api: Api, unique: Unique) -> None:
    topic, group = unique("takeover"), unique("g")
    api.create(topic, 1)
    one, two = api.member(group, [topic]), api.member(group, [topic])
    with members(one, two):
        until(lambda: len(one.owned() | two.owned()) == 1 and is_stable(api, group, 2), [one, two])
        worker, idle = (one, two) if one.owned() else (two, one)
        assert not idle.owned()
        api.produce(topic, numbered(10))
        assert [each.offset for each in read(worker, 10)] == list(range(10))
        worker.commit_at(topic, 0, 6)  # four of the ten are not done yet
        assert idle.poll(0.1) == []
        worker.close()
        assert [each.offset for each in read(idle, 4)] == [6, 7, 8, 9]


def is_stable(api: Api, group: str, members: int) -> bool:
    """Whether so many have joined and each has given up what is not its own any more."""
    with ottla.Admin(bootstrap_servers=api.bootstrap) as admin:
        found = admin.describe_group(group)
        return found.state == "Stable" and len(found.members) == members


def test_one_group_is_a_queue_and_different_groups_are_a_broadcast(api: Api, unique: Unique) -> None:
    topic = unique("fan")
    api.create(topic, 2)
    group = unique("queue")
    queue = [api.member(group, [topic]) for _ in range(2)]
    others = [api.member(unique("broadcast"), [topic]) for _ in range(2)]
    with members(*queue, *others):
        until(lambda: all(len(m.owned()) == 1 for m in queue), queue)
        until(lambda: all(len(m.owned()) == 2 for m in others), others)
        api.produce(topic, [(str(i), str(i)) for i in range(20)])
        everything = [str(i) for i in range(20)]
        got: list[list[Seen]] = [[], []]
        for seen, member in zip(got, queue, strict=True):
            mine = {p for _, p in member.owned()}
            ends = sum(api.ends(topic, partition)[1] for partition in mine)
            seen += read(member, ends)
            assert {each.partition for each in seen} == mine
        shared = [each.value for seen in got for each in seen]
        assert sorted(shared, key=lambda v: int(v or 0)) == everything  # each record to one of them
        for member in others:
            assert sorted((e.value for e in read(member, 20)), key=lambda v: int(v or 0)) == everything


def test_go_away_and_come_back(api: Api, unique: Unique) -> None:
    topic, group = unique("away"), unique("g")
    api.create(topic)
    api.produce(topic, numbered(5))
    first = api.member(group, [topic])
    with members(first):
        assert [e.offset for e in read(first, 5)] == [0, 1, 2, 3, 4]
        first.commit()
    api.produce(topic, numbered(3))  # while nobody listens
    second = api.member(group, [topic])
    with members(second):
        assert [e.offset for e in read(second, 3)] == [5, 6, 7]


def test_reading_at_9_with_the_log_at_12_is_a_lag_of_3(
    api: Api, unique: Unique, capsys: pytest.CaptureFixture[str]
) -> None:
    from ottla.cli.main import main

    topic, group = unique("lag"), unique("g")
    api.create(topic)
    api.produce(topic, numbered(9))
    member = api.member(group, [topic])
    with members(member):
        read(member, 9)
        member.commit()
    api.produce(topic, numbered(3))
    assert api.ends(topic, 0)[1] - (api.committed(group, topic, 0) or 0) == 3
    assert (
        main(["kafka-consumer-groups", "--bootstrap-server", api.bootstrap, "--describe", "--group", group])
        == 0
    )
    row = next(line.split() for line in capsys.readouterr().out.splitlines() if topic in line)
    assert row[:6] == [group, topic, "0", "9", "12", "3"]


def test_our_consumer_knows_its_own_lag(target: object, unique: Unique) -> None:
    api = Ours(target.bootstrap)  # type: ignore[attr-defined]
    topic = unique("lag")
    api.create(topic)
    api.produce(topic, numbered(12))
    with ottla.Consumer(bootstrap_servers=api.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        seen = 0
        while seen < 9:
            seen += len(consumer.poll(1.0, max_records=9 - seen))
        assert consumer.position((topic, 0)) == 9
        assert consumer.lag((topic, 0)) == 3
        assert consumer.metrics()["records-lag-max"] == 3


def test_a_consumer_that_stops_polling_loses_its_partitions(api: Api, unique: Unique) -> None:
    topic, group = unique("stuck"), unique("g")
    api.create(topic, 1)
    settings = {"max.poll.interval.ms": 1_500}  # confluent-kafka takes no less than its session time-out
    stuck = api.member(group, [topic], **settings)
    with members(stuck):
        until(lambda: stuck.owned(), [stuck])
        other = api.member(group, [topic], **settings)
        with members(other):
            until(lambda: other.owned() == {(topic, 0)}, [other])  # the first one is not polled any more
            api.produce(topic, numbered(1))
            assert [e.offset for e in read(other, 1)] == [0]


def test_a_regular_expression_picks_up_a_new_topic(api: Api, unique: Unique) -> None:
    stem, group = unique("sensor"), unique("g")
    api.create(f"{stem}-a")
    member = api.member(group, [f"^{stem}-.*"])
    with members(member):
        until(lambda: member.owned() == {(f"{stem}-a", 0)}, [member])
        api.create(f"{stem}-b")
        until(lambda: member.owned() == {(f"{stem}-a", 0), (f"{stem}-b", 0)}, [member])
        api.produce(f"{stem}-b", numbered(1))
        assert read(member, 1)[0].topic == f"{stem}-b"
