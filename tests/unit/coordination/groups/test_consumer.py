"""The consumer protocol (KIP-848): heartbeats, epochs, reconciliation, fencing, patterns."""

import pytest

from ottla import errors as e
from ottla.coordination.groups.settings import GroupSettings
from tests.unit.coordination.groups.world import World, partitions_of


def settle(world: World, *members: str, group: str = "g", rounds: int = 10) -> dict[str, set]:
    """Members that do what they are told, until nothing changes."""
    owned: dict[str, set] = {each: set(_assigned(world, each, group)) for each in members}
    for _ in range(rounds):
        before = world.log.end
        for each in members:
            epoch = world.groups[group].members[each].epoch
            answer = world.beat(each, epoch, group=group, owned=owned[each])
            assert answer.error_code == 0, answer
            news = partitions_of(answer)
            if news is not None:
                owned[each] = news
        if world.log.end == before:
            return owned
    raise AssertionError("does not settle")


def _assigned(world: World, member: str, group: str) -> set:
    return set(world.groups[group].members[member].assigned_partitions)


def test_the_first_member_gets_everything_at_once():
    world = World(t=3)
    answer = world.subscribe("a")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert partitions_of(answer) == world.topics.partitions("t")
    assert world.groups["g"].state == "Stable"


def test_before_version_1_the_coordinator_makes_the_id():
    world = World(t=1)
    answer = world.subscribe("", version=0)
    assert (answer.error_code, answer.member_id) == (0, "0001")


def test_a_heartbeat_without_news_writes_nothing_and_says_little():
    world = World(t=3)
    world.subscribe("a")
    before = world.log.end
    answer = world.beat("a", 2)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)
    assert world.log.end == before


def test_a_second_member_waits_for_what_the_first_gives_up():
    world = World(t=4)
    everything = partitions_of(world.subscribe("a"))
    second = world.subscribe("b")
    assert (second.member_epoch, partitions_of(second)) == (3, set())
    told = world.beat("a", 2, owned=everything)
    assert told.member_epoch == 2  # not before it has given up
    kept = partitions_of(told)
    assert len(kept) == 2
    assert partitions_of(world.beat("b", 3)) is None  # nothing is free yet
    done = world.beat("a", 2, owned=kept)
    assert done.member_epoch == 3
    assert partitions_of(world.beat("b", 3)) == everything - kept
    assert world.groups["g"].state == "Stable"


def test_owners_never_overlap_while_members_come_and_go():
    world = World(t=7)
    world.subscribe("a")
    world.subscribe("b")
    world.subscribe("c")
    owned = settle(world, "a", "b", "c")
    assert sorted(len(each) for each in owned.values()) == [2, 2, 3]
    assert set.union(*owned.values()) == world.topics.partitions("t")
    world.beat("b", -1)
    owned = settle(world, "a", "c")
    assert set.union(*owned.values()) == world.topics.partitions("t")


def test_a_member_that_leaves_frees_its_partitions():
    world = World(t=2)
    world.subscribe("a")
    answer = world.beat("a", -1)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert world.groups["g"].state == "Empty"
    assert partitions_of(world.subscribe("b")) == world.topics.partitions("t")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group": ""}, e.InvalidRequest),
        ({"member_id": ""}, e.InvalidRequest),
        ({"instance": ""}, e.InvalidRequest),
        ({"rebalance_ms": -1}, e.InvalidRequest),
        ({"owned": None}, e.InvalidRequest),
        ({"owned": [(b"?" * 16, 0)]}, e.InvalidRequest),
        ({"topics": None}, e.InvalidRequest),
        ({"epoch": -3}, e.InvalidRequest),
        ({"epoch": -2}, e.InvalidRequest),
        ({"assignor": "sticky"}, e.UnsupportedAssignor),
        ({"regex": "("}, e.InvalidRegularExpression),
        ({"regex": "x" * 5000}, e.InvalidRegularExpression),
        ({"epoch": 5}, e.GroupIdNotFound),
        ({"epoch": -1}, e.GroupIdNotFound),
    ],
)
def test_a_heartbeat_is_refused(options, error):
    world = World(t=1)
    request = {"member_id": "a", "epoch": 0, "rebalance_ms": 1_000, "owned": (), "topics": ["t"], **options}
    assert world.beat(request.pop("member_id"), request.pop("epoch"), **request).error_code == error.code
    assert not world.groups


def test_members_and_epochs_are_checked():
    world = World(t=1)
    world.subscribe("a")
    assert world.beat("b", 2).error_code == e.UnknownMemberId.code
    assert world.beat("b", -1).error_code == e.UnknownMemberId.code
    assert world.beat("a", 3).error_code == e.FencedMemberEpoch.code


def test_a_member_that_missed_its_new_epoch_may_repeat_itself():
    world = World(t=2)
    everything = partitions_of(world.subscribe("a"))
    world.subscribe("b")
    kept = partitions_of(world.beat("a", 2, owned=everything))
    world.beat("a", 2, owned=kept)  # the answer, with epoch 3, gets lost
    assert world.beat("a", 2, owned=kept).member_epoch == 3
    assert world.beat("a", 2).error_code == e.FencedMemberEpoch.code
    assert world.beat("a", 2, owned=everything).error_code == e.FencedMemberEpoch.code


def test_a_member_that_joins_again_is_told_everything():
    world = World(t=2)
    world.subscribe("a")
    answer = world.subscribe("a")
    assert (answer.member_epoch, partitions_of(answer)) == (2, world.topics.partitions("t"))


def test_a_silent_member_is_fenced_after_its_session():
    world = World(t=2)
    world.subscribe("a")
    world.clock.advance(44_999)
    world.subscribe("b")
    world.clock.advance(1)
    assert list(world.groups["g"].members) == ["b"]
    assert world.beat("a", 2).error_code == e.UnknownMemberId.code
    assert partitions_of(world.beat("b", 3)) == world.topics.partitions("t")


def test_a_member_that_does_not_give_up_in_time_is_fenced():
    world = World(t=2)
    everything = partitions_of(world.subscribe("a", rebalance_ms=10_000))
    world.subscribe("b")
    for _ in range(4):
        world.beat("a", 2, owned=everything)
        world.beat("b", 3)
        world.clock.advance(2_400)
    world.clock.advance(500)
    assert list(world.groups["g"].members) == ["b"]


def test_a_member_that_gives_up_in_time_stays():
    world = World(t=2)
    everything = partitions_of(world.subscribe("a", rebalance_ms=10_000))
    world.subscribe("b")
    kept = partitions_of(world.beat("a", 2, owned=everything))
    world.beat("a", 2, owned=kept)
    world.clock.advance(20_000)
    assert set(world.groups["g"].members) == {"a", "b"}


def test_a_full_group_takes_nobody_else():
    world = World(GroupSettings(group_consumer_max_size=1), t=1)
    world.subscribe("a")
    assert world.subscribe("b").error_code == e.GroupMaxSizeReached.code
    assert world.subscribe("a").error_code == 0


# Static members


def test_a_static_member_comes_back_to_what_it_had():
    world = World(t=2)
    before = partitions_of(world.subscribe("a", instance="i"))
    assert world.beat("a", -2, instance="i").member_epoch == -2
    answer = world.subscribe("a2", instance="i")
    assert (answer.error_code, answer.member_epoch, partitions_of(answer)) == (0, 2, before)
    assert world.groups["g"].epoch == 2  # nobody else noticed
    assert world.beat("a", 2, instance="i").error_code == e.FencedInstanceId.code


def test_an_instance_that_is_in_use_is_not_given_to_another():
    world = World(t=2)
    world.subscribe("a", instance="i")
    assert world.subscribe("a2", instance="i").error_code == e.UnreleasedInstanceId.code
    assert world.beat("a", 2, instance="other").error_code == e.UnknownMemberId.code


def test_a_static_member_that_stays_away_is_out_after_its_session():
    world = World(t=2)
    world.subscribe("a", instance="i")
    world.beat("a", -2, instance="i")
    world.clock.advance(45_000)
    assert world.groups["g"].state == "Empty"


# Subscriptions


def test_a_changed_subscription_changes_the_assignment():
    world = World(t=1, u=1)
    world.subscribe("a", ["t"])
    answer = world.beat("a", 2, topics=["t", "u"], owned=world.topics.partitions("t"))
    assert (answer.member_epoch, partitions_of(answer)) == (3, world.topics.partitions("t", "u"))


def test_a_member_that_wants_nothing_disturbs_nobody():
    world = World(t=1)
    world.subscribe("a")
    answer = world.subscribe("b", [], regex="")
    assert (answer.error_code, answer.member_epoch, partitions_of(answer)) == (0, 2, set())


def test_a_topic_that_grows_is_picked_up():
    world = World(t=1)
    world.subscribe("a")
    world.topics.grow("t", 3)
    world.table.on_topics_changed()
    assert partitions_of(world.beat("a", 2)) == world.topics.partitions("t")


def test_a_topic_that_is_made_later_is_picked_up():
    world = World()
    assert partitions_of(world.subscribe("a", ["later"])) == set()
    world.topics.create("later", 2)
    world.table.on_topics_changed()
    assert partitions_of(world.beat("a", 2)) == world.topics.partitions("later")


def test_a_deleted_topic_does_not_wedge_the_group():
    world = World(t=2, u=1)
    everything = partitions_of(world.subscribe("a", ["t", "u"]))
    world.topics.delete("t")
    world.table.on_topics_changed()
    kept = partitions_of(world.beat("a", 2, owned=everything))
    assert kept == world.topics.partitions("u")
    assert world.beat("a", 2, owned=kept).member_epoch == 3
    assert world.groups["g"].state == "Stable"


def test_a_pattern_picks_up_new_topics():
    world = World(**{"home.a": 1, "home.b": 1, "work": 1})
    answer = world.subscribe("a", regex="home\\..*")
    assert partitions_of(answer) == world.topics.partitions("home.a", "home.b")
    world.topics.create("home.c", 1)
    world.table.on_topics_changed()
    assert partitions_of(world.beat("a", 2)) == world.topics.partitions("home.a", "home.b", "home.c")
    world.restart()
    assert world.beat("a", 3).error_code == 0
    assert world.groups["g"].epoch == 3


def test_a_pattern_matches_whole_names_only():
    world = World(t=1, tt=1)
    assert partitions_of(world.subscribe("a", regex="t")) == world.topics.partitions("t")


def test_a_pattern_that_would_stall_other_engines_does_not():
    world = World(**{"a" * 200: 1})
    assert world.subscribe("a", regex="(a*)*" * 20 + "b").error_code == 0


def test_a_pattern_nobody_uses_is_forgotten():
    world = World(t=1)
    world.subscribe("a", regex="t.*")
    world.beat("a", 2, topics=["t"], regex="", owned=world.topics.partitions("t"))
    assert world.groups["g"].regexes == {}
    assert world.replica().state.groups["g"].regexes == {}


def test_names_and_a_pattern_add_up():
    world = World(t=1, u=1, v=1)
    answer = world.subscribe("a", ["t"], regex="u")
    assert partitions_of(answer) == world.topics.partitions("t", "u")


def test_most_votes_choose_the_assignor():
    world = World(t=4, u=4)
    world.subscribe("a", ["t", "u"], assignor="range")
    world.subscribe("b", ["t", "u"], assignor="range")
    owned = settle(world, "a", "b")
    t, u = world.topics.topic_id("t"), world.topics.topic_id("u")
    assert owned["a"] == {(t, 0), (t, 1), (u, 0), (u, 1)}


# Intervals and configs


def test_heartbeats_come_often_while_a_group_changes():
    world = World(t=1)
    assert world.subscribe("a").heartbeat_interval_ms == 500
    world.clock.advance(40_000)
    assert world.beat("a", 2).heartbeat_interval_ms == 500
    world.clock.advance(20_000)
    assert world.beat("a", 2).heartbeat_interval_ms == 5_000


def test_a_group_has_its_own_session_and_interval():
    world = World(t=1)
    world.overrides["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "99999"}
    world.subscribe("a")
    world.clock.advance(49_999)
    assert world.groups["g"].members
    world.clock.advance(1)
    assert not world.groups["g"].members
    world.subscribe("a")
    for _ in range(2):
        world.clock.advance(40_000)
        answer = world.beat("a", world.groups["g"].epoch)
    assert answer.heartbeat_interval_ms == 15_000


# Offsets


def test_members_commit_under_their_epoch():
    world = World(t=2)
    world.subscribe("a")
    assert world.commit(1, member_id="a", generation=2) == 0
    assert world.commit(1, member_id="a", generation=2, version=8) == e.UnsupportedVersion.code
    assert world.commit(1, member_id="a", generation=3) == e.StaleMemberEpoch.code
    assert world.commit(1, member_id="b", generation=2) == e.UnknownMemberId.code
    assert world.commit(1) == e.UnknownMemberId.code
    world.beat("a", -1)
    assert world.commit(2) == 0


def test_a_commit_that_meets_a_newer_epoch_counts_for_what_the_member_kept():
    world = World(t=2)
    everything = partitions_of(world.subscribe("a"))
    world.subscribe("b")
    kept = partitions_of(world.beat("a", 2, owned=everything))
    world.beat("a", 2, owned=kept)
    (own,) = (number for _, number in kept)
    assert world.commit(1, member_id="a", generation=2, partition=own) == 0
    assert world.commit(1, member_id="a", generation=2, partition=1 - own) == e.StaleMemberEpoch.code
    assert world.committed(partition=1 - own) == -1


def test_members_read_under_their_epoch():
    world = World(t=1)
    world.subscribe("a")
    world.commit(4, member_id="a", generation=2)
    assert world.fetch(topics={"t": [0]}, member_id="a", epoch=2).error_code == 0
    assert world.fetch(topics={"t": [0]}, member_id="a", epoch=9).error_code == e.StaleMemberEpoch.code
    assert world.fetch(topics={"t": [0]}, member_id="b", epoch=2).error_code == e.UnknownMemberId.code
    assert world.committed() == 4


# Restart


def test_a_restart_in_the_middle_of_a_handover_changes_nothing():
    world = World(t=4)
    everything = partitions_of(world.subscribe("a"))
    world.subscribe("b")
    kept = partitions_of(world.beat("a", 2, owned=everything))
    before = world.groups["g"]
    world.restart()
    assert world.groups["g"] == before
    assert world.beat("a", 2, owned=kept).member_epoch == 3
    assert partitions_of(world.beat("b", 3)) == everything - kept


def test_the_time_to_give_up_starts_anew_with_a_restart():
    world = World(t=2)
    everything = partitions_of(world.subscribe("a", rebalance_ms=10_000))
    world.subscribe("b")
    world.beat("a", 2, owned=everything)
    world.restart()
    world.clock.advance(10_000)
    assert list(world.groups["g"].members) == ["b"]


def test_a_heartbeat_that_cannot_be_written_changes_nothing():
    world = World(t=2)
    world.subscribe("a")
    before = world.groups["g"].copy()
    world.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        world.subscribe("b")
    assert world.groups["g"] == before
    world.log.broken = False
    assert world.subscribe("b").member_epoch == 3


def test_a_member_is_fenced_later_when_the_log_refuses_it_at_first():
    world = World(t=2)
    world.subscribe("a")
    world.log.broken = True
    world.clock.advance(46_000)
    assert list(world.groups["g"].members) == ["a"]
    world.log.broken = False
    world.clock.advance(1_000)
    assert not world.groups["g"].members


def test_epochs_are_reported():
    world = World(t=1)
    world.subscribe("a")
    assert "group g epoch 2: 1 members, a subscribes" in world.lines
