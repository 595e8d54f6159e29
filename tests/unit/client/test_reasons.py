"""A client that cannot get on says why at once, in a sentence of its own for each cause, and goes on trying."""

import contextlib
import logging
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.errors import SettingError, TimedOut, UntrustedBroker
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable=False) as running:
        yield running


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates that sign themselves: `broker` for 127.0.0.1, `other` for other.example."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make certificates")
    folder = tmp_path_factory.mktemp("pems")
    for name, subject in (("broker", "IP:127.0.0.1"), ("other", "DNS:other.example")):
        subprocess.run(
            [
                *(
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:prime256v1",
                    "-nodes",
                ),
                *("-subj", f"/CN={name}", "-addext", f"subjectAltName={subject}", "-days", "2"),
                *("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")),
            ],
            check=True,
            capture_output=True,
        )
    return folder


@contextlib.contextmanager
def a_tls_port(pems: Path, name: str) -> Iterator[str]:
    """A port that does the TLS handshake with each client, one after the other, and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pems / f"{name}.pem", pems / f"{name}.key")
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as wrapped:
                wrapped.recv(1)

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        server.join()


AT_ONCE_MS = 60_000  # for a call that does not wait for its end


def outcome(address: str, timeout_ms: int = 1_000, **settings: Any) -> tuple[str, list[str]]:
    """How a call ends that cannot work, and what was told while it was tried."""
    told: list[str] = []
    with (
        ottla.Admin(
            settings,
            bootstrap_servers=address,
            default_api_timeout_ms=timeout_ms,
            on_retry=lambda error: told.append(str(error)),
        ) as admin,
        pytest.raises(ottla.OttlaError) as caught,
    ):
        admin.list_topics()
    return str(caught.value), told


def test_no_broker_is_told_at_once_and_in_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    error, told = outcome(address)
    assert address in error and address in told[0]
    assert "bootstrap.servers right?" in told[0]
    assert len(told) == 1, "the same reason is told once"


def test_a_port_that_takes_the_connection_and_says_nothing_is_told_before_the_time_is_up(monkeypatch) -> None:
    monkeypatch.setattr("ottla.client.loop.runtime.SILENT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        error, told = outcome(address)
    assert told == [f"{address} has not answered yet. Is it a Kafka port, and can it be reached from here?"]
    assert f"no answer (bootstrap.servers is {address})" in error


def test_without_a_callback_the_reason_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    said = threading.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.set()

    heard = Heard()
    logging.getLogger("ottla.client").addHandler(heard)
    try:
        with ottla.Producer(bootstrap_servers=f"127.0.0.1:{port}", max_block_ms=60_000) as producer:
            waiting = threading.Thread(target=_try_to_send, args=(producer,), daemon=True)
            waiting.start()
            assert said.wait(30), "long before max.block.ms"
            producer.close(0)
            waiting.join(30)
    finally:
        logging.getLogger("ottla.client").removeHandler(heard)


def _try_to_send(producer: ottla.Producer) -> None:
    with contextlib.suppress(BaseException):
        producer.send("t", b"x")


def test_a_missing_topic_has_one_wording(broker: Broker) -> None:
    sentence = "topic nowhere does not exist; check its name, or create it first"
    told: list[str] = []

    def tell(error: Exception) -> None:
        told.append(str(error))

    with (
        ottla.Producer(bootstrap_servers=broker.bootstrap, max_block_ms=2_000, on_retry=tell) as producer,
        pytest.raises(TimedOut, match=sentence),
    ):
        producer.send("nowhere", b"x")
    assert told == [sentence]
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        for call in (
            lambda: admin.describe_topics(["nowhere"]),
            lambda: admin.delete_topics(["nowhere"]),
            lambda: admin.find_hanging_transactions(["nowhere"]),
        ):
            with pytest.raises(ottla.OttlaError, match=f"^{sentence}"):
                call()
    with ottla.Consumer(bootstrap_servers=broker.bootstrap, group_id="g", on_retry=tell) as consumer:
        consumer.subscribe("nowhere")
        assert consumer.poll(0) == []
        consumer.unsubscribe()
        consumer.assign([("nowhere", 0)])
        while told.count(sentence) < 2 or consumer.poll(0):
            consumer.poll(0.05)
    assert set(told) == {sentence}


def test_a_name_that_no_topic_can_have_is_told_as_such(broker: Broker) -> None:
    with (
        ottla.Producer(bootstrap_servers=broker.bootstrap) as producer,
        pytest.raises(ottla.OttlaError, match="no topic can be named 'a/b'"),
    ):
        producer.send("a/b", b"x").result(30)
    with (
        ottla.Admin(bootstrap_servers=broker.bootstrap) as admin,
        pytest.raises(ottla.OttlaError, match="no topic can be named 'a/b'"),
    ):
        admin.describe_topics(["a/b"])


def test_tls_against_a_plaintext_port(broker: Broker, pems: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.server")
    error, told = outcome(broker.bootstrap, security_protocol="SSL", ssl_ca_location=str(pems / "broker.pem"))
    assert "the client speaks TLS to a listener without it" in caplog.text
    assert f"{broker.bootstrap} does not speak TLS, and security.protocol is SSL" in told[0]
    assert "security.protocol=PLAINTEXT" in error
    assert "Is the broker running" not in error, "it has answered"


def test_a_login_where_nobody_is_asked_to(broker: Broker) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "secret"}
    with (
        ottla.Admin(bootstrap_servers=broker.bootstrap, security_protocol="SASL_PLAINTEXT", **login) as admin,
        pytest.raises(ottla.OttlaError, match=r"asks nobody to log in.*security\.protocol=PLAINTEXT"),
    ):
        admin.list_topics()


@contextlib.contextmanager
def a_port_that_says(answer: bytes) -> Iterator[str]:
    """A port that answers whatever comes first with these bytes and hangs up."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        server.join()


def test_plaintext_against_a_tls_port(pems: Path) -> None:
    with a_tls_port(pems, "broker") as address:
        error, told = outcome(address)
    assert "set security.protocol=SSL" in told[0] and address in told[0]
    assert "set security.protocol=SSL" in error


def test_a_tls_alert_in_answer_to_plaintext_is_recognized() -> None:
    with a_port_that_says(b"\x15\x03\x03\x00\x02\x02\x46") as address:
        _, told = outcome(address)
    assert f"{address} speaks TLS, and this client does not: set security.protocol=SSL" in told[0]


def test_a_port_that_hangs_up_is_asked_about_tls() -> None:
    with a_port_that_says(b"") as address:
        _, told = outcome(address)
    assert "closed the connection before it answered" in told[0] and "security.protocol=SSL" in told[0]


def test_a_certificate_of_another_ca_is_final_and_names_the_file(pems: Path) -> None:
    store = pems / "other.pem"
    with a_tls_port(pems, "broker") as address:
        error, told = outcome(address, AT_ONCE_MS, security_protocol="SSL", ssl_ca_location=str(store))
    assert f"the certificate of {address} is not signed by the CA in {store}" in error
    assert not told, "there is no second try"


def test_a_certificate_of_another_host_says_so(pems: Path) -> None:
    with (
        a_tls_port(pems, "other") as address,
        ottla.Admin(
            bootstrap_servers=address, security_protocol="SSL", ssl_ca_location=str(pems / "other.pem")
        ) as admin,
        pytest.raises(UntrustedBroker, match=r"is not for the host 127\.0\.0\.1"),
    ):
        admin.list_topics()


@pytest.mark.parametrize("setting", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
def test_a_missing_pem_file_is_named_with_its_setting(setting: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    error, told = outcome("127.0.0.1:1", AT_ONCE_MS, **{"security.protocol": "SSL", setting: missing})
    assert error == f"{setting}: {missing} cannot be read: No such file or directory"
    assert not told


def test_a_file_that_is_no_pem_is_named(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with (
        ottla.Admin(security_protocol="SSL", ssl_ca_location=str(store)) as admin,
        pytest.raises(SettingError, match="not a PEM file"),
    ):
        admin.list_topics()


def test_a_time_out_leaves_no_task_behind_that_nobody_asks(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio would print "Task exception was never retrieved" when the task is collected."""
    import gc

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            ottla.Admin(
                bootstrap_servers=address,
                default_api_timeout_ms=50,
                socket_connection_setup_timeout_ms=150,
                on_retry=lambda error: None,
            ) as admin,
            pytest.raises(TimedOut),
        ):
            try:
                admin.list_topics()
            finally:
                opening = list(admin.cluster._opening.values())
                while not all(task.done() for task in opening):
                    threading.Event().wait(0.01)
                del opening
                gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_client_that_is_closed_in_the_middle_of_its_work_warns_of_nothing(broker: Broker) -> None:
    broker.create_topic("busy", 4)
    told: list[str] = []
    for _ in range(5):
        with ottla.Consumer(
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            on_retry=lambda error: told.append(str(error)),
        ) as consumer:
            consumer.assign([("busy", index) for index in range(4)])
            consumer.poll(0.05)
    assert told == []
