"""Several sessions of the metadata log in ZooKeeper: leases, zombies, lost sessions, a fast take-over."""

import asyncio

import pytest

from ottla.ensemble import why_not
from ottla.metadata.log import Deposed, Outrun
from tests.cluster.zookeeper_home import OneServer, ZooKeeperHome
from tests.unit.metadata.test_log_port import Reader, a_record, append

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.fixture(scope="module")
def server():
    server = OneServer()
    yield server
    server.stop()


@pytest.fixture
def home(server):
    home = ZooKeeperHome(server)
    yield home
    home.close()


def opened(home, broker_id):
    log, reader = home.log(broker_id), Reader()
    log.open(reader)
    return log, reader


def until(home, condition):
    async def wait():
        while not condition():
            await asyncio.sleep(0.01)

    home.run(wait())


def test_a_lease_is_for_one(home):
    one, first = opened(home, 1)
    two, second = opened(home, 2)
    one.claim(1)
    two.claim(2)
    assert first.leases[-1] == second.leases[-1] == (1, 1)
    assert isinstance(append(two, 0, 1, a_record()), Deposed)


def test_a_controller_believed_dead_is_replaced_and_never_writes_again(home):
    zombie, old = opened(home, 1)
    heir, new = opened(home, 2)
    zombie.claim(1)
    assert append(zombie, 0, 1, a_record(1)) is None
    heir.claim(2, over=1)
    assert new.leases[-1] == (2, 2)
    assert append(heir, 1, 2, a_record(2)) is None
    zombie._log._lease._ours = 1  # it has not heard of it
    assert isinstance(append(zombie, 2, 1, a_record(666)), Deposed)
    assert old.entries == new.entries == [(0, [a_record(1)]), (1, [a_record(2)])]


def test_only_the_lease_that_was_meant_is_taken_over(home):
    one, first = opened(home, 1)
    two, _ = opened(home, 2)
    one.claim(1)
    two.claim(2, over=7)
    assert first.leases[-1] == (1, 1)


def test_everybody_hears_every_entry_in_order(home):
    writer, _ = opened(home, 1)
    _, reader = opened(home, 2)
    writer.claim(1)
    for position in range(20):
        assert append(writer, position, 1, a_record(position)) is None
    assert reader.entries == [(at, [a_record(at)]) for at in range(20)]


def test_a_session_that_is_closed_takes_its_lease_and_registration_along(home):
    one, _ = opened(home, 1)
    _, second = opened(home, 2)
    one.register(1, b"here")
    one.claim(1)
    assert second.members == {1: b"here"}
    one.close()
    until(home, lambda: second.members == {} and second.leases[-1] == (None, 1))


def test_a_broker_that_starts_anew_replaces_its_last_life(home):
    """Its old session has not ended: neither its registration nor its lease may be taken for ours."""
    dead, _ = opened(home, 1)
    dead.register(1, b"old")
    dead.claim(1)
    dead._is_open = False
    home.run(_abandoned(dead._log))
    _, reader = opened(home, 1)
    home.logs[-1].register(1, b"new")
    until(home, lambda: reader.members == {1: b"new"} and reader.leases and reader.leases[-1] == (1, 2))


async def _abandoned(log):
    log.abandon()


def test_a_writer_that_was_outrun_has_read_on_when_it_hears_so(home):
    one, reader = opened(home, 1)
    one.claim(1)
    append(one, 0, 1, a_record(0))
    one._log._position = 0  # as if it had not read it
    reader.entries.clear()
    assert isinstance(append(one, 0, 1, a_record(1)), Outrun)
    assert reader.entries == [(0, [a_record(0)])]
