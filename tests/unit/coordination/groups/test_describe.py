"""Groups as administrators see them."""

from ottla import errors as e
from ottla.wire.messages.list_groups import ListGroupsRequest
from tests.unit.coordination.groups.coordinator import GroupCoordinator, subscription


def listed(coordinator: GroupCoordinator, states=(), types=()) -> dict[str, tuple[str, str, str]]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    answer = coordinator.ask(lambda token, now: coordinator.table.on_list_groups(request, token, now))
    return {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in answer.groups}


def a_world_of_groups() -> GroupCoordinator:
    coordinator = GroupCoordinator(t=1)
    coordinator.commit(1, group="simple")
    coordinator.stable_group(1, group="classic")
    coordinator.enter(group="joining")
    coordinator.subscribe("a", group="consumer")
    return coordinator


def test_all_groups_are_listed_with_their_state_and_type():
    assert listed(a_world_of_groups()) == {
        "simple": ("", "Empty", "classic"),
        "classic": ("consumer", "Stable", "classic"),
        "joining": ("consumer", "CompletingRebalance", "classic"),
        "consumer": ("consumer", "Stable", "consumer"),
    }


def test_lists_are_filtered_without_regard_to_case():
    coordinator = a_world_of_groups()
    assert set(listed(coordinator, states=["stable"])) == {"classic", "consumer"}
    assert set(listed(coordinator, types=["Consumer"])) == {"consumer"}
    assert set(listed(coordinator, states=["Stable"], types=["classic"])) == {"classic"}
    assert listed(coordinator, types=["share"]) == {}


def describe(coordinator: GroupCoordinator, *groups: str, version: int = 6):
    return coordinator.ask(
        lambda token, now: coordinator.table.on_describe_groups(list(groups), version, token, now)
    )


def test_a_stable_group_is_described_with_subscriptions_and_assignments():
    coordinator = a_world_of_groups()
    (group,) = describe(coordinator, "classic")
    (member,) = group.members
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.member_metadata == subscription("t")
    assert member.member_assignment == b"of " + member.member_id.encode()


def test_a_joining_group_is_described_without_them():
    (group,) = describe(a_world_of_groups(), "joining")
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_metadata == group.members[0].member_assignment == b""


def test_unknown_groups_are_dead_and_from_version_6_an_error():
    coordinator = a_world_of_groups()
    for version, code in ((5, 0), (6, e.GroupIdNotFound.code)):
        for group in describe(coordinator, "none", "consumer", version=version):
            assert (group.group_state, group.error_code) == ("Dead", code)


def test_a_consumer_group_is_described_with_epochs_and_targets():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("a", assignor="range")
    coordinator.subscribe("b", regex="t")
    ask = ["g", "none"]
    group, none = coordinator.ask(
        lambda token, now: coordinator.table.on_consumer_group_describe(ask, token, now)
    )
    assert none.error_code == e.GroupIdNotFound.code
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    a, b = group.members
    assert (a.member_epoch, b.member_epoch) == (2, 3)
    assert b.subscribed_topic_regex == "t" and a.subscribed_topic_names == ["t"]
    assert a.assignment.topic_partitions[0].partitions == [0, 1]
    assert a.target_assignment.topic_partitions[0].topic_name == "t"
    assert [len(each.target_assignment.topic_partitions[0].partitions) for each in (a, b)] == [1, 1]
    assert (a.member_type, b.member_type) == (1, 1)
