"""How brokers reach each other: what a configuration cannot mean is refused."""

import pytest

from ottla.config.protection import AUTHORIZERS
from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.server.links import link_of

GUARDED = {"listeners": "PLAINTEXT://127.0.0.1:0", "node.id": "1", "authorizer.class.name": AUTHORIZERS[0]}


@pytest.mark.parametrize(
    "super_users", ["User:ANONYMOUS", "User:ann;User:ANONYMOUS", "User:ann; User:ANONYMOUS ;"]
)
def test_brokers_without_a_login_may_be_super_users(super_users):
    assert link_of(Config({**GUARDED, "super.users": super_users})).tls is None


def test_brokers_without_a_login_and_without_rights_are_refused():
    with pytest.raises(InvalidConfig, match=r"add User:ANONYMOUS to super\.users"):
        link_of(Config({**GUARDED, "super.users": "User:ann"}))
