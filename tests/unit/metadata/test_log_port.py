"""What every home of the metadata log promises; one set of tests for all of them."""

import pytest

from ottla.metadata.journal import Journal
from ottla.metadata.log import ENTRY_MAX_BYTES, Deposed, Outrun, TooLarge
from ottla.metadata.records import ConfigSet, FeatureSet
from ottla.metadata.shared import Shared
from ottla.storage.memory import MemoryDisk


class Reader:
    """Writes down what it is told."""

    def __init__(self):
        self.snapshots = []
        self.entries = []
        self.leases = []
        self.members = {}
        self.lost = 0

    def on_snapshot(self, position, records):
        self.snapshots.append((position, list(records)))

    def on_entry(self, position, records):
        self.entries.append((position, list(records)))

    def on_lease(self, holder, epoch):
        self.leases.append((holder, epoch))

    def on_members(self, members):
        self.members = dict(members)

    def on_session_lost(self):
        self.lost += 1


class JournalHome:
    def __init__(self):
        self.disk = MemoryDisk()

    def log(self):
        return Journal(self.disk, "meta")


class SharedHome:
    def __init__(self):
        self.shared = Shared()

    def log(self):
        return self.shared.session()


@pytest.fixture(scope="module")
def zookeeper():
    from ottla.ensemble import why_not
    from tests.cluster.zookeeper_home import OneServer

    if why_not():
        pytest.skip(why_not())
    server = OneServer()
    yield server
    server.stop()


@pytest.fixture(params=["journal", "shared", "zookeeper"])
def home(request):
    if request.param == "journal":
        yield JournalHome()
    elif request.param == "shared":
        yield SharedHome()
    else:
        from tests.cluster.zookeeper_home import ZooKeeperHome

        home = ZooKeeperHome(request.getfixturevalue("zookeeper"))
        yield home
        home.close()


def a_record(number=1):
    return FeatureSet("f", number)


def writer(home):
    """A log that holds the lease, its reader and the epoch."""
    log, reader = home.log(), Reader()
    log.open(reader)
    log.claim(1)
    holder, epoch = reader.leases[-1]
    assert holder == 1
    return log, reader, epoch


def append(log, position, epoch, *records):
    outcomes = []
    log.append(position, epoch, records, outcomes.append)
    (outcome,) = outcomes
    return outcome


def test_what_is_appended_is_delivered_before_it_is_acknowledged(home):
    log, reader, epoch = writer(home)
    seen = []
    log.append(0, epoch, [a_record()], lambda failed: seen.append((failed, list(reader.entries))))
    assert seen == [(None, [(0, [a_record()])])]


def test_a_later_reader_gets_everything_in_order(home):
    log, _, epoch = writer(home)
    for position in range(5):
        assert append(log, position, epoch, a_record(position), a_record(position + 1)) is None
    log.close()
    later = Reader()
    home.log().open(later)
    assert later.entries == [(at, [a_record(at), a_record(at + 1)]) for at in range(5)]


def test_a_reader_that_comes_back_goes_on_where_it_was(home):
    log, _, epoch = writer(home)
    for position in range(3):
        append(log, position, epoch, a_record(position))
    log.close()
    again = Reader()
    home.log().open(again, 2)
    assert again.entries == [(2, [a_record(2)])]


def test_a_position_that_is_taken_or_not_due_is_refused(home):
    log, reader, epoch = writer(home)
    append(log, 0, epoch, a_record(1))
    for position in (0, 2):
        assert isinstance(append(log, position, epoch, a_record(2)), Outrun)
    assert reader.entries == [(0, [a_record(1)])]


def test_another_epoch_than_the_one_held_is_refused(home):
    log, reader, epoch = writer(home)
    for wrong in (epoch - 1, epoch + 1):
        assert isinstance(append(log, 0, wrong, a_record()), Deposed)
    assert reader.entries == []


def test_without_the_lease_nothing_is_written(home):
    log, reader = home.log(), Reader()
    log.open(reader)
    assert isinstance(append(log, 0, 0, a_record()), Deposed)
    assert isinstance(append(log, 0, 1, a_record()), Deposed)


def test_who_resigned_writes_no_more(home):
    log, reader, epoch = writer(home)
    log.resign()
    assert reader.leases[-1] == (None, epoch)
    assert isinstance(append(log, 0, epoch, a_record()), Deposed)


def test_every_lease_has_a_higher_epoch(home):
    log, _, first = writer(home)
    append(log, 0, first, a_record())
    log.close()
    _, _, second = writer(home)
    assert second > first


def test_an_entry_beyond_the_limit_is_refused_and_the_log_goes_on(home):
    log, _, epoch = writer(home)
    large = ConfigSet(2, "t", "x", "v" * ENTRY_MAX_BYTES)
    assert isinstance(append(log, 0, epoch, large), TooLarge)
    assert append(log, 0, epoch, a_record()) is None


def snapshot(log, position, epoch, *records):
    outcomes = []
    log.snapshot(position, epoch, records, outcomes.append)
    (outcome,) = outcomes
    return outcome


def test_a_snapshot_stands_for_what_came_before_it(home):
    log, _, epoch = writer(home)
    for position in range(3):
        append(log, position, epoch, a_record(position))
    assert snapshot(log, 3, epoch, a_record(9)) is None
    append(log, 3, epoch, a_record(3))
    log.close()
    later = Reader()
    home.log().open(later)
    assert later.snapshots == [(3, [a_record(9)])]
    assert later.entries == [(3, [a_record(3)])]


def test_a_reader_that_has_all_of_a_snapshot_is_spared_it(home):
    log, _, epoch = writer(home)
    for position in range(3):
        append(log, position, epoch, a_record(position))
    snapshot(log, 3, epoch, a_record(2))
    append(log, 3, epoch, a_record(3))
    log.close()
    again = Reader()
    home.log().open(again, 3)
    assert (again.snapshots, again.entries) == ([], [(3, [a_record(3)])])


def test_a_snapshot_needs_the_lease_and_the_whole_log_too(home):
    log, _, epoch = writer(home)
    append(log, 0, epoch, a_record())
    assert isinstance(snapshot(log, 1, epoch - 1, a_record()), Deposed)
    assert isinstance(snapshot(log, 0, epoch, a_record()), Outrun)


def test_an_epoch_is_not_used_again_after_a_snapshot(home):
    log, _, first = writer(home)
    append(log, 0, first, a_record())
    snapshot(log, 1, first, a_record())
    log.close()
    assert writer(home)[2] > first


def test_members_are_told_with_what_they_registered(home):
    log, reader, _ = writer(home)
    log.register(1, b"here")
    assert reader.members == {1: b"here"}


# Several sessions: the shared log only.


def test_an_expired_session_loses_its_lease_and_its_registration():
    shared = Shared()
    one, two = shared.session(), shared.session()
    first, second = Reader(), Reader()
    one.open(first)
    two.open(second)
    one.register(1, b"one")
    one.claim(1)
    two.claim(2)
    assert second.leases[-1] == (1, 1), "the lease was taken"
    one.expire()
    assert (second.leases[-1], second.members, first.lost) == ((None, 1), {}, 1)
    two.claim(2)
    assert second.leases[-1] == (2, 2)


def test_a_zombie_controller_never_gets_a_write_through():
    shared = Shared()
    zombie, heir = shared.session(), shared.session()
    old, new = Reader(), Reader()
    zombie.open(old)
    heir.open(new)
    zombie.claim(1)
    append(zombie, 0, 1, a_record(1))
    zombie.cut()
    zombie.expire()
    heir.claim(2)
    append(heir, 1, 2, a_record(2))
    assert old.leases[-1] == (1, 1), "it has not noticed"
    zombie.connected = True
    for position in (1, 2):
        for epoch in (1, 2):
            assert isinstance(append(zombie, position, epoch, a_record(666)), Deposed)
    assert new.entries == [(0, [a_record(1)]), (1, [a_record(2)])]


def test_a_session_that_was_cut_hears_the_rest_when_it_is_back():
    shared = Shared()
    one, two = shared.session(), shared.session()
    first, second = Reader(), Reader()
    one.open(first)
    two.open(second)
    one.claim(1)
    two.cut()
    for position in range(3):
        append(one, position, 1, a_record(position))
    assert second.entries == []
    two.reconnect()
    assert second.entries == first.entries


def test_a_reader_that_fell_behind_what_was_trimmed_gets_the_snapshot():
    shared = Shared()
    one, two = shared.session(), shared.session()
    first, second = Reader(), Reader()
    one.open(first)
    two.open(second)
    one.claim(1)
    append(one, 0, 1, a_record(0))
    two.cut()
    append(one, 1, 1, a_record(1))
    snapshot(one, 2, 1, a_record(1))
    append(one, 2, 1, a_record(2))
    two.reconnect()
    assert second.snapshots == [(2, [a_record(1)])]
    assert second.entries == [(0, [a_record(0)]), (2, [a_record(2)])]


def test_a_session_that_is_cut_cannot_give_its_lease_back_until_it_is_connected_again():
    shared = Shared()
    one, two = shared.session(), shared.session()
    first, second = Reader(), Reader()
    one.open(first)
    two.open(second)
    one.claim(1)
    one.cut()
    one.resign()
    assert second.leases[-1] == (1, 1)
    one.reconnect()
    assert second.leases[-1] == (None, 1)
