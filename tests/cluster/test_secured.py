"""Three brokers and ZooKeeper without a plain connection: TLS, logins, and nodes that only brokers may touch."""

import asyncio
import ssl

import pytest

from ottla.client import Admin
from ottla.config.settings import Config
from ottla.ensemble import why_not
from ottla.errors import InvalidConfig, OttlaError
from ottla.server.zookeeper.protocol import Code, ZooKeeperError
from ottla.server.zookeeper.security import acl
from ottla.server.zookeeper.session import Options, Session
from tests.cluster.load import Load, create
from tests.cluster.secured import ZOOKEEPER_AUTH, SecuredCluster

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def cluster():
    with SecuredCluster(3) as running:
        yield running


def login(cluster):
    return {name: text for name, text in cluster.client.items() if name != "bootstrap.servers"}


def test_records_are_replicated_over_secured_links(cluster):
    create(cluster.bootstrap, login=login(cluster))
    with Load(cluster.bootstrap, login=login(cluster)) as load:
        load.wait_for(100)
        cluster.kill(leader := cluster.leader())
        load.wait_for(100)
        cluster.start(leader)
        cluster.until_in_sync()
    load.check()


def test_nobody_gets_at_a_broker_without_tls_or_with_a_wrong_password(cluster):
    wrong = {**cluster.client, "sasl.password": "wrong"}
    plain = {"bootstrap.servers": cluster.bootstrap, "default.api.timeout.ms": 2000}
    for settings in (wrong, plain):
        with pytest.raises(OttlaError), Admin(settings) as admin:
            admin.describe_cluster()


def asked(cluster, options):
    """What ZooKeeper says to somebody who wants to know what brokers wrote."""

    async def ask():
        connected = asyncio.Event()
        session = Session(
            options, on_connected=connected.set, on_event=lambda _: None, on_expired=lambda: None
        )
        try:
            await asyncio.wait_for(connected.wait(), 60)
            return await session.children("/ottla")
        except ZooKeeperError as error:
            return error.code
        finally:
            session.close()

    return asyncio.run(ask())


def test_what_brokers_write_to_zookeeper_is_for_brokers_alone(cluster):
    context = ssl.create_default_context(cafile=cluster.papers.authority)
    context.load_cert_chain(cluster.papers.server)
    hosts = tuple(("127.0.0.1", port) for port in cluster.zookeepers.secure_ports)
    scheme, _, secret = ZOOKEEPER_AUTH.partition(":")
    assert "brokers" in asked(cluster, Options(hosts, credentials=(scheme, secret.encode()), tls=context))
    assert asked(cluster, Options(hosts, tls=context)) == Code.NO_AUTH
    stranger = Options(hosts, credentials=("digest", b"ottla:guessed"), tls=context)
    assert asked(cluster, stranger) == Code.NO_AUTH


def test_zookeeper_takes_nobody_without_tls(cluster):
    hosts = tuple(("127.0.0.1", port) for port in cluster.zookeepers.secure_ports)

    async def connects():
        connected = asyncio.Event()
        session = Session(
            Options(hosts), on_connected=connected.set, on_event=lambda _: None, on_expired=lambda: None
        )
        try:
            await asyncio.wait_for(connected.wait(), 3)
            return True
        except TimeoutError:
            return False
        finally:
            session.close()

    assert not asyncio.run(connects())


def test_rules_that_anybody_could_change_in_zookeeper_are_refused():
    rules = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with pytest.raises(InvalidConfig, match=r"zookeeper\.set\.acl"):
        acl(Config(rules))
    guarded = {"zookeeper.set.acl": "true", "ottla.zookeeper.auth": ZOOKEEPER_AUTH}
    assert acl(Config({**rules, **guarded})) != acl(Config({}))
