"""The broker's pages with TLS and a login: what they refuse, and a real Prometheus that gets in."""

import asyncio
import base64
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import trustme

from ottla.console.scrapes import Scrapes
from ottla.security.passwords import hash_password
from tests.metrics.programs import Prometheus, needs_prometheus
from tests.metrics.test_prometheus import generated

NAME, PASSWORD = "prometheus", "open sesame"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The address of the pages, and the folder with certificates and passwords."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "cert.pem").write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    (folder / "key.pem").write_bytes(certificate.private_key_pem.bytes())
    (folder / "users").write_text(f"{NAME}:{hash_password(PASSWORD, b'salt')}\n")
    (folder / "password").write_text(PASSWORD)
    command = [
        sys.executable, "-m", "ottla", "start", "--memory", "--port", "0", "--http", "0",
        "--http-certificate", str(folder / "cert.pem"), "--http-key", str(folder / "key.pem"),
        "--http-users", str(folder / "users"),
    ]  # fmt: skip
    with (folder / "log").open("w+") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout.readline().startswith("ready ")
            told = (folder / "log").read_text()
            yield told.split("http 127.0.0.1:")[1].split()[0], folder
        finally:
            process.terminate()
            process.wait(90)
            process.stdout.close()


def ask(port, path, folder, login=None):
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    headers = {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            assert error.code != 401 or error.headers["WWW-Authenticate"].startswith("Basic")
            return error.code, error.read().decode()


def test_metrics_ask_for_a_login_and_health_does_not(guarded):
    port, folder = guarded
    for login in (None, f"{NAME}:guess", "nobody:", "no colon"):
        for path in ("/metrics", "/metrics/partitions", "/telemetry", "/nothing"):
            assert ask(port, path, folder, login)[0] == 401
    for _ in range(2):  # the second time by what is remembered
        status, text = ask(port, "/metrics", folder, f"{NAME}:{PASSWORD}")
        assert status == 200 and "ottla_ready 1" in text
    assert ask(port, "/metrics", folder, f"{NAME}:{PASSWORD}x")[0] == 401
    assert ask(port, "/health/ready", folder) == (200, "ok\n")
    assert ask(port, "/nothing", folder, f"{NAME}:{PASSWORD}")[0] == 404


def test_without_tls_nothing_is_told(guarded):
    port, _ = guarded
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30)


def test_a_console_gets_in_with_a_login_in_the_address(guarded, monkeypatch):
    port, folder = guarded
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    scrapes = Scrapes([f"https://{NAME}:open%20sesame@127.0.0.1:{port}/metrics"])
    asyncio.run(scrapes.look())
    (series,) = scrapes._series.values()
    assert any(name.startswith("kafka_server_brokertopicmetrics_bytesout") for name, _ in series)


@needs_prometheus
def test_prometheus_gets_in_with_the_generated_configuration(guarded, tmp_path):
    port, folder = guarded
    configuration = generated(
        "prometheus-config", f"127.0.0.1:{port}", "--interval", "1s", "--ca", str(folder / "ca.pem"),
        "--user", NAME, "--password-file", str(folder / "password"),
    )  # fmt: skip
    with Prometheus(tmp_path, configuration) as prometheus:
        prometheus.until(lambda: prometheus.value('up{job="ottla"} == 1'), "a scrape that succeeds")
        assert prometheus.value("ottla_ready == 1")
