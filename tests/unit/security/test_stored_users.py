"""PLAIN with the users of SCRAM: a password is hashed in a thread, and remembered until its credential changes."""

import pytest

from ottla.errors import SaslAuthenticationFailed
from ottla.security import plain, scram
from ottla.security.mechanisms import Aside


class House:
    """Users as the metadata has them, and the hashes that were asked for."""

    def __init__(self, **passwords):
        self.stored = {name: self.made(name, password) for name, password in passwords.items()}
        self.users = plain.StoredUsers(self.stored.get, b"random" * 6)
        self.hashes = 0

    def made(self, name, password, digest="sha256"):
        return plain.Stored(name, digest, scram.credential_of(digest, password, b"salt", 4096))

    def login(self, name, password, listed=None, while_hashing=lambda: None):
        exchange = plain.plain_or_stored(plain.users_check(listed or {}), self.users)
        next(exchange)
        try:
            step = exchange.send(f"\0{name}\0{password}".encode())
            assert isinstance(step, Aside)
            self.hashes += 1
            outcome = step.job()
            while_hashing()
            exchange.send(outcome)
        except StopIteration as end:
            return end.value.principal
        raise AssertionError("the exchange goes on")


def test_the_right_password_is_hashed_once():
    house = House(alice="secret")
    assert [house.login("alice", "secret") for _ in range(3)] == ["User:alice"] * 3
    assert house.hashes == 1


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_every_refusal_costs_a_hash_in_the_same_words(name):
    house = House(alice="secret")
    for _ in range(2):
        with pytest.raises(SaslAuthenticationFailed, match="Invalid username or password"):
            house.login(name, "wrong")
    assert house.hashes == 2


def test_a_wrong_password_of_a_listed_user_costs_a_hash_too():
    house = House(alice="secret")
    assert house.login("bob", "listed", {"bob": "listed"}) == "User:bob"
    assert house.hashes == 0
    with pytest.raises(SaslAuthenticationFailed):
        house.login("bob", "wrong", {"bob": "listed"})
    assert house.hashes == 1


def test_a_changed_or_removed_user_is_not_remembered():
    house = House(alice="secret")
    house.login("alice", "secret")
    house.stored["alice"] = house.made("alice", "changed", "sha512")
    with pytest.raises(SaslAuthenticationFailed):
        house.login("alice", "secret")
    assert house.login("alice", "changed") == "User:alice"
    del house.stored["alice"]
    with pytest.raises(SaslAuthenticationFailed):
        house.login("alice", "changed")


def test_a_user_that_is_removed_while_it_is_hashed_does_not_get_in():
    house = House(alice="secret")
    with pytest.raises(SaslAuthenticationFailed):
        house.login("alice", "secret", while_hashing=house.stored.clear)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(plain, "REMEMBERED_MAX", 2)
    house = House(a="1", b="2", c="3")
    for name, password in (("a", "1"), ("b", "2"), ("c", "3")):
        house.login(name, password)
    assert len(house.users._known) == 2
    assert house.login("c", "3") == "User:c"
    assert house.hashes == 3
