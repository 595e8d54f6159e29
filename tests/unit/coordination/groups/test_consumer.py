"""The consumer protocol (KIP-848): heartbeats, epochs, reconciliation, fencing, patterns."""

import pytest

from ottla import errors as e
from ottla.coordination.groups.settings import GroupSettings
from tests.unit.coordination.groups.coordinator import FakeClient, GroupCoordinator, partitions_of


def settle(
    coordinator: GroupCoordinator, *members: str, group: str = "g", rounds: int = 10
) -> dict[str, set]:
    """Members that do what they are told, until nothing changes."""
    owned: dict[str, set] = {each: set(_assigned(coordinator, each, group)) for each in members}
    for _ in range(rounds):
        before = coordinator.log.end
        for each in members:
            epoch = coordinator.groups[group].members[each].epoch
            answer = coordinator.beat(each, epoch, group=group, owned=owned[each])
            assert answer.error_code == 0, answer
            news = partitions_of(answer)
            if news is not None:
                owned[each] = news
        if coordinator.log.end == before:
            return owned
    raise AssertionError("does not settle")


def _assigned(coordinator: GroupCoordinator, member: str, group: str) -> set:
    return set(coordinator.groups[group].members[member].assigned_partitions)


def test_the_first_member_gets_everything_at_once():
    coordinator = GroupCoordinator(t=3)
    answer = coordinator.subscribe("a")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert partitions_of(answer) == coordinator.topics.partitions("t")
    assert coordinator.groups["g"].state == "Stable"


def test_before_version_1_the_coordinator_makes_the_id():
    coordinator = GroupCoordinator(t=1)
    answer = coordinator.subscribe("", version=0)
    assert (answer.error_code, answer.member_id) == (0, "0001")


def test_a_heartbeat_without_news_writes_nothing_and_says_little():
    coordinator = GroupCoordinator(t=3)
    coordinator.subscribe("a")
    before = coordinator.log.end
    answer = coordinator.beat("a", 2)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)
    assert coordinator.log.end == before


def test_a_second_member_waits_for_what_the_first_gives_up():
    coordinator = GroupCoordinator(t=4)
    everything = partitions_of(coordinator.subscribe("a"))
    second = coordinator.subscribe("b")
    assert (second.member_epoch, partitions_of(second)) == (3, set())
    told = coordinator.beat("a", 2, owned=everything)
    assert told.member_epoch == 2  # not before it has given up
    kept = partitions_of(told)
    assert len(kept) == 2
    assert partitions_of(coordinator.beat("b", 3)) is None  # nothing is free yet
    done = coordinator.beat("a", 2, owned=kept)
    assert done.member_epoch == 3
    assert partitions_of(coordinator.beat("b", 3)) == everything - kept
    assert coordinator.groups["g"].state == "Stable"


def test_owners_never_overlap_while_members_come_and_go():
    coordinator = GroupCoordinator(t=7)
    coordinator.subscribe("a")
    coordinator.subscribe("b")
    coordinator.subscribe("c")
    owned = settle(coordinator, "a", "b", "c")
    assert sorted(len(each) for each in owned.values()) == [2, 2, 3]
    assert set.union(*owned.values()) == coordinator.topics.partitions("t")
    coordinator.beat("b", -1)
    owned = settle(coordinator, "a", "c")
    assert set.union(*owned.values()) == coordinator.topics.partitions("t")


def test_a_member_that_leaves_frees_its_partitions():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a")
    answer = coordinator.beat("a", -1)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert coordinator.groups["g"].state == "Empty"
    assert partitions_of(coordinator.subscribe("b")) == coordinator.topics.partitions("t")


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
    coordinator = GroupCoordinator(t=1)
    request = {"member_id": "a", "epoch": 0, "rebalance_ms": 1_000, "owned": (), "topics": ["t"], **options}
    assert (
        coordinator.beat(request.pop("member_id"), request.pop("epoch"), **request).error_code == error.code
    )
    assert not coordinator.groups


def test_members_and_epochs_are_checked():
    coordinator = GroupCoordinator(t=1)
    coordinator.subscribe("a")
    assert coordinator.beat("b", 2).error_code == e.UnknownMemberId.code
    assert coordinator.beat("b", -1).error_code == e.UnknownMemberId.code
    assert coordinator.beat("a", 3).error_code == e.FencedMemberEpoch.code


def test_a_member_that_missed_its_new_epoch_may_repeat_itself():
    coordinator = GroupCoordinator(t=2)
    everything = partitions_of(coordinator.subscribe("a"))
    coordinator.subscribe("b")
    kept = partitions_of(coordinator.beat("a", 2, owned=everything))
    coordinator.beat("a", 2, owned=kept)  # the answer, with epoch 3, gets lost
    assert coordinator.beat("a", 2, owned=kept).member_epoch == 3
    assert coordinator.beat("a", 2).error_code == e.FencedMemberEpoch.code
    assert coordinator.beat("a", 2, owned=everything).error_code == e.FencedMemberEpoch.code


def test_a_member_that_joins_again_is_told_everything():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a")
    answer = coordinator.subscribe("a")
    assert (answer.member_epoch, partitions_of(answer)) == (2, coordinator.topics.partitions("t"))


def test_a_silent_member_is_fenced_after_its_session():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a")
    coordinator.clock.advance(44_999)
    coordinator.subscribe("b")
    coordinator.clock.advance(1)
    assert list(coordinator.groups["g"].members) == ["b"]
    assert coordinator.beat("a", 2).error_code == e.UnknownMemberId.code
    assert partitions_of(coordinator.beat("b", 3)) == coordinator.topics.partitions("t")


def test_a_member_that_does_not_give_up_in_time_is_fenced():
    coordinator = GroupCoordinator(t=2)
    everything = partitions_of(coordinator.subscribe("a", rebalance_ms=10_000))
    coordinator.subscribe("b")
    for _ in range(4):
        coordinator.beat("a", 2, owned=everything)
        coordinator.beat("b", 3)
        coordinator.clock.advance(2_400)
    coordinator.clock.advance(500)
    assert list(coordinator.groups["g"].members) == ["b"]


def test_a_member_that_gives_up_in_time_stays():
    coordinator = GroupCoordinator(t=2)
    everything = partitions_of(coordinator.subscribe("a", rebalance_ms=10_000))
    coordinator.subscribe("b")
    kept = partitions_of(coordinator.beat("a", 2, owned=everything))
    coordinator.beat("a", 2, owned=kept)
    coordinator.clock.advance(20_000)
    assert set(coordinator.groups["g"].members) == {"a", "b"}


def test_a_full_group_takes_nobody_else():
    coordinator = GroupCoordinator(GroupSettings(group_consumer_max_size=1), t=1)
    coordinator.subscribe("a")
    assert coordinator.subscribe("b").error_code == e.GroupMaxSizeReached.code
    assert coordinator.subscribe("a").error_code == 0


# Static members


def test_a_static_member_comes_back_to_what_it_had():
    coordinator = GroupCoordinator(t=2)
    before = partitions_of(coordinator.subscribe("a", instance="i"))
    assert coordinator.beat("a", -2, instance="i").member_epoch == -2
    answer = coordinator.subscribe("a2", instance="i")
    assert (answer.error_code, answer.member_epoch, partitions_of(answer)) == (0, 2, before)
    assert coordinator.groups["g"].epoch == 2  # nobody else noticed
    assert coordinator.beat("a", 2, instance="i").error_code == e.FencedInstanceId.code


def test_an_instance_that_is_in_use_is_not_given_to_another():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a", instance="i")
    assert coordinator.subscribe("a2", instance="i").error_code == e.UnreleasedInstanceId.code
    assert coordinator.beat("a", 2, instance="other").error_code == e.UnknownMemberId.code


def test_a_static_member_that_stays_away_is_out_after_its_session():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a", instance="i")
    coordinator.beat("a", -2, instance="i")
    coordinator.clock.advance(45_000)
    assert coordinator.groups["g"].state == "Empty"


# Subscriptions


def test_a_changed_subscription_changes_the_assignment():
    coordinator = GroupCoordinator(t=1, u=1)
    coordinator.subscribe("a", ["t"])
    answer = coordinator.beat("a", 2, topics=["t", "u"], owned=coordinator.topics.partitions("t"))
    assert (answer.member_epoch, partitions_of(answer)) == (3, coordinator.topics.partitions("t", "u"))


def test_a_member_that_wants_nothing_disturbs_nobody():
    coordinator = GroupCoordinator(t=1)
    coordinator.subscribe("a")
    answer = coordinator.subscribe("b", [], regex="")
    assert (answer.error_code, answer.member_epoch, partitions_of(answer)) == (0, 2, set())


def test_a_topic_that_grows_is_picked_up():
    coordinator = GroupCoordinator(t=1)
    coordinator.subscribe("a")
    coordinator.topics.grow("t", 3)
    coordinator.table.on_topics_changed()
    assert partitions_of(coordinator.beat("a", 2)) == coordinator.topics.partitions("t")


def test_a_topic_that_is_made_later_is_picked_up():
    coordinator = GroupCoordinator()
    assert partitions_of(coordinator.subscribe("a", ["later"])) == set()
    coordinator.topics.create("later", 2)
    coordinator.table.on_topics_changed()
    assert partitions_of(coordinator.beat("a", 2)) == coordinator.topics.partitions("later")


def test_a_deleted_topic_does_not_wedge_the_group():
    coordinator = GroupCoordinator(t=2, u=1)
    everything = partitions_of(coordinator.subscribe("a", ["t", "u"]))
    coordinator.topics.delete("t")
    coordinator.table.on_topics_changed()
    kept = partitions_of(coordinator.beat("a", 2, owned=everything))
    assert kept == coordinator.topics.partitions("u")
    assert coordinator.beat("a", 2, owned=kept).member_epoch == 3
    assert coordinator.groups["g"].state == "Stable"


def test_a_pattern_picks_up_new_topics():
    coordinator = GroupCoordinator(**{"home.a": 1, "home.b": 1, "work": 1})  # type: ignore[arg-type]
    answer = coordinator.subscribe("a", regex="home\\..*")
    assert partitions_of(answer) == coordinator.topics.partitions("home.a", "home.b")
    coordinator.topics.create("home.c", 1)
    coordinator.table.on_topics_changed()
    assert partitions_of(coordinator.beat("a", 2)) == coordinator.topics.partitions(
        "home.a", "home.b", "home.c"
    )
    coordinator.restart()
    assert coordinator.beat("a", 3).error_code == 0
    assert coordinator.groups["g"].epoch == 3


def test_a_pattern_matches_whole_names_only():
    coordinator = GroupCoordinator(t=1, tt=1)
    assert partitions_of(coordinator.subscribe("a", regex="t")) == coordinator.topics.partitions("t")


def test_a_pattern_brings_no_topic_that_the_member_may_not_see():
    coordinator = GroupCoordinator(t=1, secret=1)
    blind = FakeClient(hidden=frozenset({"secret", "secret2"}))
    answer = coordinator.subscribe("a", regex=".*", client=blind)
    assert partitions_of(answer) == coordinator.topics.partitions("t")
    coordinator.topics.create("secret2", 1)
    coordinator.topics.create("u", 1)
    coordinator.table.on_topics_changed()
    answer = coordinator.beat("a", answer.member_epoch, client=blind)
    assert partitions_of(answer) == coordinator.topics.partitions("t", "u")
    coordinator.table.on_topics_changed()  # it may see everything now
    answer = coordinator.beat("a", answer.member_epoch)
    assert partitions_of(answer) == coordinator.topics.partitions("t", "u", "secret", "secret2")


def test_a_pattern_that_would_stall_other_engines_does_not():
    coordinator = GroupCoordinator(**{"a" * 200: 1})  # type: ignore[arg-type]
    assert coordinator.subscribe("a", regex="(a*)*" * 20 + "b").error_code == 0


def test_a_pattern_nobody_uses_is_forgotten():
    coordinator = GroupCoordinator(t=1)
    coordinator.subscribe("a", regex="t.*")
    coordinator.beat("a", 2, topics=["t"], regex="", owned=coordinator.topics.partitions("t"))
    assert coordinator.groups["g"].regexes == {}
    assert coordinator.replica().state.groups["g"].regexes == {}  # type: ignore[union-attr]


def test_names_and_a_pattern_add_up():
    coordinator = GroupCoordinator(t=1, u=1, v=1)
    answer = coordinator.subscribe("a", ["t"], regex="u")
    assert partitions_of(answer) == coordinator.topics.partitions("t", "u")


def test_most_votes_choose_the_assignor():
    coordinator = GroupCoordinator(t=4, u=4)
    coordinator.subscribe("a", ["t", "u"], assignor="range")
    coordinator.subscribe("b", ["t", "u"], assignor="range")
    owned = settle(coordinator, "a", "b")
    t, u = coordinator.topics.topic_id("t"), coordinator.topics.topic_id("u")
    assert owned["a"] == {(t, 0), (t, 1), (u, 0), (u, 1)}


# Intervals and configs


def test_heartbeats_come_often_while_a_group_changes():
    coordinator = GroupCoordinator(t=1)
    assert coordinator.subscribe("a").heartbeat_interval_ms == 500
    coordinator.clock.advance(40_000)
    assert coordinator.beat("a", 2).heartbeat_interval_ms == 500
    coordinator.clock.advance(20_000)
    assert coordinator.beat("a", 2).heartbeat_interval_ms == 5_000


def test_a_group_has_its_own_session_and_interval():
    coordinator = GroupCoordinator(t=1)
    coordinator.overrides["g"] = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "99999",
    }
    coordinator.subscribe("a")
    coordinator.clock.advance(49_999)
    assert coordinator.groups["g"].members
    coordinator.clock.advance(1)
    assert not coordinator.groups["g"].members
    coordinator.subscribe("a")
    for _ in range(2):
        coordinator.clock.advance(40_000)
        answer = coordinator.beat("a", coordinator.groups["g"].epoch)
    assert answer.heartbeat_interval_ms == 15_000


# Offsets


def test_members_commit_under_their_epoch():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a")
    assert coordinator.commit(1, member_id="a", generation=2) == 0
    assert coordinator.commit(1, member_id="a", generation=2, version=8) == e.UnsupportedVersion.code
    assert coordinator.commit(1, member_id="a", generation=3) == e.StaleMemberEpoch.code
    assert coordinator.commit(1, member_id="b", generation=2) == e.UnknownMemberId.code
    assert coordinator.commit(1) == e.UnknownMemberId.code
    coordinator.beat("a", -1)
    assert coordinator.commit(2) == 0


def test_a_transaction_that_names_no_member_commits_offsets_of_a_live_group():
    """Producers before KIP-447 name no member; for later ones it is optional."""
    coordinator = GroupCoordinator(t=2)
    epoch = coordinator.subscribe("a").member_epoch
    assert coordinator.commit_in_transaction(5, 9) == 0
    coordinator.end_transaction(9, committed=True)
    assert coordinator.committed() == 5
    assert coordinator.commit_in_transaction(6, 9, member_id="a", generation=epoch) == 0
    assert coordinator.commit_in_transaction(6, 9, member_id="b") == e.UnknownMemberId.code
    assert coordinator.commit_in_transaction(6, 9, generation=epoch) == e.UnknownMemberId.code
    newer = coordinator.commit_in_transaction(6, 9, member_id="a", generation=epoch + 1)
    assert newer == e.IllegalGeneration.code


def test_a_commit_that_meets_a_newer_epoch_counts_for_what_the_member_kept():
    coordinator = GroupCoordinator(t=2)
    everything = partitions_of(coordinator.subscribe("a"))
    coordinator.subscribe("b")
    kept = partitions_of(coordinator.beat("a", 2, owned=everything))
    coordinator.beat("a", 2, owned=kept)
    (own,) = (number for _, number in kept)
    assert coordinator.commit(1, member_id="a", generation=2, partition=own) == 0
    assert coordinator.commit(1, member_id="a", generation=2, partition=1 - own) == e.StaleMemberEpoch.code
    assert coordinator.committed(partition=1 - own) == -1


def test_members_read_under_their_epoch():
    coordinator = GroupCoordinator(t=1)
    coordinator.subscribe("a")
    coordinator.commit(4, member_id="a", generation=2)
    assert coordinator.fetch(topics={"t": [0]}, member_id="a", epoch=2).error_code == 0
    assert coordinator.fetch(topics={"t": [0]}, member_id="a", epoch=9).error_code == e.StaleMemberEpoch.code
    assert coordinator.fetch(topics={"t": [0]}, member_id="b", epoch=2).error_code == e.UnknownMemberId.code
    assert coordinator.committed() == 4


# Restart


def test_a_restart_in_the_middle_of_a_handover_changes_nothing():
    coordinator = GroupCoordinator(t=4)
    everything = partitions_of(coordinator.subscribe("a"))
    coordinator.subscribe("b")
    kept = partitions_of(coordinator.beat("a", 2, owned=everything))
    before = coordinator.groups["g"]
    coordinator.restart()
    assert coordinator.groups["g"] == before
    assert coordinator.beat("a", 2, owned=kept).member_epoch == 3
    assert partitions_of(coordinator.beat("b", 3)) == everything - kept


def test_the_time_to_give_up_starts_anew_with_a_restart():
    coordinator = GroupCoordinator(t=2)
    everything = partitions_of(coordinator.subscribe("a", rebalance_ms=10_000))
    coordinator.subscribe("b")
    coordinator.beat("a", 2, owned=everything)
    coordinator.restart()
    coordinator.clock.advance(10_000)
    assert list(coordinator.groups["g"].members) == ["b"]


def test_a_heartbeat_that_cannot_be_written_changes_nothing():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a")
    before = coordinator.groups["g"].copy()
    coordinator.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        coordinator.subscribe("b")
    assert coordinator.groups["g"] == before
    coordinator.log.broken = False
    assert coordinator.subscribe("b").member_epoch == 3


def test_a_member_is_fenced_later_when_the_log_refuses_it_at_first():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a")
    coordinator.log.broken = True
    coordinator.clock.advance(46_000)
    assert list(coordinator.groups["g"].members) == ["a"]
    coordinator.log.broken = False
    coordinator.clock.advance(1_000)
    assert not coordinator.groups["g"].members


def test_epochs_are_reported():
    coordinator = GroupCoordinator(t=1)
    coordinator.subscribe("a")
    assert "group g epoch 2: 1 members, a subscribes" in coordinator.lines
