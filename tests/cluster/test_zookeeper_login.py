"""A ZooKeeper that takes nobody without a SASL login (DIGEST-MD5), and brokers that have one as Kafka's do: by JAAS."""

import asyncio
import logging

import pytest

from ottla.client import Admin
from ottla.ensemble import Ensemble, why_not
from ottla.server.zookeeper.protocol import Code, Disconnected, ZooKeeperError
from ottla.server.zookeeper.session import Options, Session
from tests.cluster.secured import netty
from tests.oracle.ports import free_ports
from tests.oracle.process import start_broker

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SERVER = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_broker="a \\"quoted\\" secret"
    user_josef="paßwort"
    user_mallory="another secret";
};
"""
CLIENT = """
KafkaServer { // not for ZooKeeper
    org.apache.kafka.common.security.plain.PlainLoginModule required username="x" password="//y";
};
/* Client { is not here */
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="broker"
    password="a \\"quoted\\" secret";
};
"""
BROKER = b'broker:a "quoted" secret'


class LoginEnsemble(Ensemble):
    def _jvm(self):
        jaas = self._folder / "server_jaas.conf"
        jaas.write_text(SERVER)
        return [*super()._jvm(), f"-Djava.security.auth.login.config={jaas}"]

    def _jars(self):
        return [*super()._jars(), *netty()]

    def _config(self, home, index):
        lines = {
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "enforce.auth.enabled": "true",
            "enforce.auth.schemes": "sasl",
        }
        return super()._config(home, index) + "".join(f"{name}={value}\n" for name, value in lines.items())


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    running = LoginEnsemble(tmp_path_factory.mktemp("zookeeper"), free_ports(1))
    running.start()
    yield running
    running.stop()


def hosts(ensemble):
    host, port = ensemble.connect.split(":")
    return ((host, int(port)),)


class Client:
    """A session, and whether it is connected."""

    def __init__(self, ensemble, secret):
        credentials = None if secret is None else ("sasl", secret)
        self.connected = asyncio.Event()
        self.session = Session(
            Options(hosts(ensemble), credentials=credentials),
            on_connected=self.connected.set,
            on_event=lambda _: None,
            on_expired=lambda: None,
        )

    async def children(self, path):
        await asyncio.wait_for(self.connected.wait(), 30)
        self.connected.clear()
        return await self.session.children(path)


async def children(ensemble, secret, path="/"):
    client = Client(ensemble, secret)
    try:
        return await client.children(path)
    finally:
        client.session.close()


def test_a_right_login_gets_in(ensemble):
    assert "zookeeper" in asyncio.run(children(ensemble, BROKER))


def test_a_password_may_have_letters_beyond_ascii(ensemble):
    assert "zookeeper" in asyncio.run(children(ensemble, "josef:paßwort".encode()))


def test_nobody_gets_in_without_a_login(ensemble):
    with pytest.raises((ZooKeeperError, Disconnected)):
        asyncio.run(children(ensemble, None))


@pytest.mark.parametrize("secret", [b"broker:guessed", b"nobody:guessed"])
def test_a_wrong_login_is_an_error_in_the_log_that_holds_no_password(ensemble, secret, caplog):
    async def refused():
        client = Client(ensemble, secret)
        try:
            async with asyncio.timeout(30):
                while "refuses our login" not in caplog.text:
                    await asyncio.sleep(0.01)
            assert not client.connected.is_set()
        finally:
            client.session.close()

    with caplog.at_level(logging.ERROR, "ottla.zookeeper"):
        asyncio.run(refused())
    assert "guessed" not in caplog.text


def test_a_session_logs_in_again_when_its_server_is_back(ensemble):
    async def twice():
        client = Client(ensemble, BROKER)
        try:
            before = await client.children("/")
            await asyncio.to_thread(ensemble.kill)
            await asyncio.to_thread(ensemble.restart)
            return before, await client.children("/")
        finally:
            client.session.close()

    before, after = asyncio.run(twice())
    assert before == after


def test_a_broker_takes_its_login_from_the_jaas_file_of_kafka_opts(ensemble, tmp_path, monkeypatch):
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(CLIENT)
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1G -Djava.security.auth.login.config={jaas}")
    options = ["--zookeeper", ensemble.connect, "--port", "0", "--data", str(tmp_path / "data")]
    process, address = start_broker(
        [*options, "--set", "zookeeper.set.acl=true"], tmp_path / "broker.log", timeout_s=90
    )
    try:
        with Admin({"bootstrap.servers": address}) as admin:
            assert len(admin.describe_cluster().brokers) == 1
        assert "brokers" in asyncio.run(children(ensemble, BROKER, "/ottla"))
        with pytest.raises(ZooKeeperError) as refused:
            asyncio.run(children(ensemble, b"mallory:another secret", "/ottla"))
        assert refused.value.code == Code.NO_AUTH
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
