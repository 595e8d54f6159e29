import pytest

import ottla
from examples.event_sourcing.event_sourcing import EVENTS, Bank, Refused, create_topics, rebuild
from ottla.testing import Broker


@pytest.fixture
def bootstrap(ottla_broker: Broker) -> str:
    create_topics(ottla_broker.bootstrap)
    return ottla_broker.bootstrap


def test_a_rebuild_gives_the_same_balances(bootstrap: str) -> None:
    with Bank(bootstrap) as bank:
        bank.run("deposit", "alice", 50)
        bank.run("transfer", "alice", "bob", 20)
        balances = dict(bank.accounts.balances)
    assert balances == {"alice": 30, "bob": 20}
    assert rebuild(bootstrap, use_snapshot=False)[0].balances == balances


def test_a_refused_command_leaves_no_event(bootstrap: str, ottla_broker: Broker) -> None:
    with Bank(bootstrap) as bank:
        bank.run("deposit", "alice", 50)
        with pytest.raises(Refused, match="alice has 50, not 60"):
            bank.run("transfer", "alice", "bob", 60)
    assert len(ottla_broker.records(EVENTS)) == 1


def test_a_snapshot_makes_the_replay_short_and_changes_nothing(bootstrap: str) -> None:
    with Bank(bootstrap, snapshot_every=10) as bank:
        for _ in range(25):
            bank.run("deposit", "alice", 1)
    with Bank(bootstrap) as again:
        assert again.accounts.balances == {"alice": 25}
        assert again.replayed < 10
    assert rebuild(bootstrap, use_snapshot=False) == (again.accounts, 25)


def test_of_two_banks_the_older_one_can_write_no_more(bootstrap: str) -> None:
    with Bank(bootstrap) as old:
        old.run("deposit", "alice", 50)
        with Bank(bootstrap) as new:
            new.run("withdraw", "alice", 50)
            with pytest.raises(ottla.OttlaError):
                old.run("withdraw", "alice", 50)  # it still believes in 50
    assert rebuild(bootstrap)[0].balances == {"alice": 0}
