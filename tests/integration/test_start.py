"""`ottla start` and `ottla doctor` as processes: options, refusals, signals, pages."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ottla.client import Admin, Producer
from tests.oracle.garbage import thresholds_at_exit
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports
from tests.oracle.process import start_broker

OTTLA = str(Path(sys.executable).with_name("ottla"))


class Process:
    """A started broker; `ready` has been seen."""

    def __init__(self, *options, memory=True):
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-start-")
        self._log = Path(self._folder.name) / "log"
        where = ["--port", "0", *(["--memory"] if memory else [])]
        self.process, self.address = start_broker([*where, *options], self._log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._folder.cleanup()

    def http(self):
        """Where it says that its metrics are."""
        return next(line for line in self._log.read_text().splitlines() if line.startswith("http ")).split()[
            1
        ]

    def stop(self, number=signal.SIGTERM):
        """Exit code, what it wrote to stderr. Far longer than a stop takes, far shorter than what clients wait for."""
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode, self._log.read_text()


def connections(broker):
    with urllib.request.urlopen(f"http://{broker.http()}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("ottla_connections"))


def wait_until(condition, what, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        time.sleep(0.02)


def ottla(*arguments, timeout=60):
    return subprocess.run(
        [sys.executable, OTTLA, *arguments], capture_output=True, text=True, timeout=timeout
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_and_soon_whatever_clients_are_doing(number):
    with Process("--http", "0") as broker:
        host, port = broker.address.rsplit(":", 1)
        silent = [socket.create_connection((host, int(port))) for _ in range(20)]
        assert ottla("topics", "create", "t", "--bootstrap", broker.address).returncode == 0
        parked = subprocess.Popen(
            [sys.executable, OTTLA, "consume", "t", "--bootstrap", broker.address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: connections(broker) > len(silent), "the consumer to connect")
        code, errors = broker.stop(number)
        parked.kill()
        parked.wait()
        assert code == 0, errors
        assert "Traceback" not in errors
        for each in silent:
            assert each.recv(1) == b""
            each.close()


def test_a_broker_that_serves_has_short_collections(tmp_path, monkeypatch):
    """Those of the start are postponed. One of 50,000 objects took 14 ms, in which nobody was served."""
    noting, noted = thresholds_at_exit(tmp_path)
    monkeypatch.setenv("PYTHONPATH", noting["PYTHONPATH"])
    with Process() as broker:
        assert broker.stop()[0] == 0
    assert int(noted.read_text()) <= 2_000


def test_a_second_broker_on_the_same_folder_is_refused(tmp_path):
    data = str(tmp_path / "data")
    with Process("--data", data, memory=False) as first:
        second = ottla("start", "--port", "0", "--data", data)
        assert second.returncode == 1
        assert second.stderr.strip().splitlines()[-1] == f"ottla: another broker uses {data}"
        assert first.stop()[0] == 0
    with Process("--data", data, memory=False):
        pass  # and a killed one leaves no lock behind
    with Process("--data", data, memory=False):
        pass


def test_a_port_in_use_is_one_line_and_exit_code_1():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = ottla("start", "--memory", "--port", str(taken.getsockname()[1]))
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert "another program listens there already" in result.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("num.partitions=none", "num.partitions"),
        ("num.partition=3", "did you mean num.partitions?"),
        ("nonsense", "name=value"),
        ("listeners=9092", "NAME://HOST:PORT"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "by which clients reach this broker"),
        ("advertised.listeners=OUTSIDE://host:9092", "not in listeners"),
        ("listeners=SSL://127.0.0.1:0", "listener SSL: a TLS listener needs ssl.keystore.location"),
        ("authorizer.class.name=org.example.Rules", "there is no such Python class"),
    ],
)
def test_a_wrong_setting_is_explained_in_one_line(setting, said):
    result = ottla("start", "--memory", "--port", "0", "--set", setting)
    assert result.returncode == 1
    assert said in result.stderr and "Traceback" not in result.stderr


def test_set_wins_over_options_and_these_over_the_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        "# a comment\nnum.partitions = 3\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:1\n"
        "log.dirs=/nowhere\ncompression.\\\n  type=lz4\nssl.keystore.type=JKS\n"
    )
    data = tmp_path / "data"
    with Process(
        "--config", str(file), "--data", str(data), "--set", "num.partitions=5", memory=False
    ) as broker:
        with Admin({"bootstrap.servers": broker.address}) as admin:
            assert [each.id for each in admin.describe_cluster().brokers] == [7]
        result = ottla("config", "describe", "--broker", "7", "--json", "--bootstrap", broker.address)
        if result.returncode == 0:
            assert '"num.partitions"' in result.stdout
        code, errors = broker.stop()
        assert code == 0
        assert "ssl.keystore.type" in errors
    assert (data / "meta.properties").exists()


def test_metrics_and_health_over_http():
    command = ["--http", "0", "--set", "num.partitions=2"]
    with Process(*command) as broker:
        base = f"http://{broker.http()}"
        with Producer({"bootstrap.servers": broker.address}) as producer:
            producer.send("t", b"v")
            producer.flush()
        with urllib.request.urlopen(f"{base}/metrics") as answer:
            text = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        for name in (
            "ottla_requests_total",
            "ottla_connections",
            "ottla_partitions",
            "ottla_loop_lag_max_seconds",
            'ottla_request_memory_bytes{lane="peers"} 0',
            "ottla_file_handles_limit",
            "ottla_file_handles_budget",
        ):
            assert name in text
        names = [row.split("{")[0].split()[0] for row in text.splitlines() if not row.startswith("#")]
        assert all(name.replace("_", "").isalnum() for name in names)
        with urllib.request.urlopen(f"{base}/metrics/partitions") as answer:
            assert 'kafka_log_log_logendoffset{topic="t",partition="' in answer.read().decode()
        for path in ("/health", "/health/live", "/health/ready"):
            with urllib.request.urlopen(base + path) as answer:
                assert (answer.status, answer.read()) == (200, b"ok\n")
        for path, status in (("/else", 404), ("/metrics", 405)):
            request = urllib.request.Request(base + path, method="GET" if status == 404 else "POST")
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == status
            refused.value.close()
        host, port = base.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))):  # says nothing
            code, errors = broker.stop()
            assert code == 0, errors


def test_the_doctor_finds_a_healthy_broker_well(tmp_path):
    data = str(tmp_path / "data")
    with Process("--data", data, memory=False) as broker:
        result = ottla("doctor", "--bootstrap", broker.address, "--data", data)
        assert result.returncode == 0, result.stdout
        for said in ("accepts connections", "reachable from here", "MiB free", "file handles", "in use by"):
            assert said in result.stdout
        assert broker.stop()[0] == 0
    result = ottla("doctor", "--data", data, "--deep")
    assert result.returncode == 0, result.stdout
    assert "every batch and index in order" in result.stdout


def test_the_doctor_explains_an_advertised_address_that_clients_cannot_reach():
    with Process("--set", "advertised.listeners=PLAINTEXT://127.0.0.1:1") as broker:
        result = ottla("doctor", "--bootstrap", broker.address)
        assert result.returncode == 1
        assert "told to clients as 127.0.0.1:1" in result.stdout
        assert "Set advertised.listeners" in result.stdout


def test_a_listener_for_everybody_is_a_warning_unless_that_is_wanted():
    with Process("--host", "0.0.0.0") as broker:
        _, said = broker.stop()
    assert "WARNING: PLAINTEXT://0.0.0.0:0" in said
    with Process("--host", "0.0.0.0", "--insecure") as broker:
        _, said = broker.stop()
    assert "WARNING" not in said


def test_the_doctor_says_what_a_running_broker_leaves_open(tmp_path):
    port = free_ports(1)[0]
    settings = {
        "listeners": f"PLAINTEXT://0.0.0.0:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }
    with Ottla(port, settings=settings) as broker:
        result = ottla("doctor", "--bootstrap", broker.bootstrap)
    assert result.returncode == 1
    assert (
        f"broker 1: open: PLAINTEXT://0.0.0.0:{port}: everybody who reaches this address gets in"
        in result.stdout
    )
    assert "broker 1: open: no authorizer.class.name" in result.stdout


def test_the_doctor_says_what_a_property_file_leaves_open(tmp_path):
    assert ottla("secure", "init", str(tmp_path / "secure")).returncode == 0
    path = tmp_path / "secure" / "broker.properties"
    result = ottla("doctor", "--config", str(path))
    assert f"{path}: nothing is open to other machines without a login" in result.stdout
    path.write_text(path.read_text().replace("SASL_SSL", "SASL_PLAINTEXT"))
    result = ottla("doctor", "--config", str(path))
    assert result.returncode == 1
    assert "SASL_PLAINTEXT://:9093: records travel unencrypted; use SASL_SSL" in result.stdout


def test_the_doctor_says_when_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    result = ottla("doctor", "--bootstrap", f"127.0.0.1:{port}")
    assert result.returncode == 1
    assert "is a broker running" in result.stdout


def test_the_doctor_finds_a_damaged_batch(tmp_path):
    data = tmp_path / "data"
    with Process("--data", str(data), memory=False) as broker:
        with Producer({"bootstrap.servers": broker.address}) as producer:
            producer.send("t", b"value" * 100)
            producer.flush()
        assert broker.stop()[0] == 0
    segment = data / "t-0" / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    content[100] ^= 0xFF
    segment.write_bytes(content)
    assert ottla("doctor", "--data", str(data)).returncode == 0  # headers are in order
    result = ottla("doctor", "--data", str(data), "--deep")
    assert result.returncode == 1
    assert "t-0" in result.stdout


def test_ten_thousand_idle_connections_cost_little_and_hinder_nobody():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 200)
    if count < 1000:
        pytest.skip(f"only {hard} file handles are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle = []
    try:
        with Process("--set", "socket.listen.backlog.size=1000") as broker:
            host, port = broker.address.rsplit(":", 1)
            before = resident_kib(broker.process.pid)
            for _ in range(count):
                idle.append(socket.create_connection((host, int(port)), 30))
            with Producer({"bootstrap.servers": broker.address}) as producer:
                for _ in range(20):
                    producer.send("t", b"v").result(60)
            grown = resident_kib(broker.process.pid) - before
            assert grown / count < 20, f"{grown / count} KiB each"
            code, errors = broker.stop()
            assert code == 0, errors[-500:]
    finally:
        for each in idle:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_beyond_the_file_handles_are_refused_with_a_line(tmp_path):
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120)); "
    code += "from ottla.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "start", "--port", "0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().split()[1]
    host, port = address.rsplit(":", 1)
    with Producer({"bootstrap.servers": address}) as producer:
        producer.send("t", b"first").result(60)
        others = [socket.create_connection((host, int(port)), 60) for _ in range(100)]
        for number in range(10):
            producer.send(f"t{number}", b"and files can be opened all the same").result(60)
        for each in others:
            each.close()
    process.terminate()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "file handles of this process are nearly used up" in errors


def resident_kib(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
