"""The settings of one group under the broker's bounds."""

from ottla.coordination.groups.settings import GroupSettings


def test_bounds_that_moved_later_win_over_a_groups_value():
    settings = GroupSettings(group_consumer_max_session_timeout_ms=50_000)
    assert (
        settings.of_group({"consumer.session.timeout.ms": "60000"}).group_consumer_session_timeout_ms
        == 50_000
    )
    assert settings.of_group({}) == settings
