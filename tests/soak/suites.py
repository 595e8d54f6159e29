"""Other clients' own test suites against Ottla: fetched with their package tools, built, run, never kept here.

    python -m tests.soak.suites [franz-go] [kafka-go] [kafka-python] [kafka-security] [kafka-streams]
                                [librdkafka] [librdkafka-secured] [sarama]

Needs Go, Maven, Cargo (it brings librdkafka's source) and a C compiler for theirs. A test that fails and is not listed
in `EXPECTED`, with its reason, is wrong. docs/compatibility.md tells what was found, and what Kafka answers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from ottla.client import Admin
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports
from tests.soak import sarama_suite, streams_suite

FRANZ_GO, KAFKA_GO, KAFKA_PYTHON, RDKAFKA_SYS = "v1.22.2", "v0.4.51", "3.0.12", "4.10.0"
RECORDS = 20_000  # of each chain of franz-go's group and transaction tests
SCRAM_USER = "franz:a-secret"
KAFKA_GO_PORT, KAFKA_GO_LOGIN_PORT = 9092, 9093  # in its source, as are these users
_KAFKA_GO_PLAIN = 'PlainLoginModule required user_adminplain="admin-secret";'
_KAFKA_GO_SCRAM = {"SCRAM-SHA-256": "admin-secret-256", "SCRAM-SHA-512": "admin-secret-512"}
# Suites that make ACLs do so as nobody, and go on as nobody.
_RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

_SMALL_SEGMENTS = "segment.bytes below 1 MiB: Kafka 4 refuses it too"
_SUITE_PANICS = "the suite's own helper has no connect function: it panics with any broker"
_UNKNOWN_SETTING = "an unknown setting of brokers is refused; Kafka keeps it, without effect"
_KEY_STORES = "AlterConfigs changes no key stores: docs/security.md"
EXPECTED: dict[str, dict[str, str]] = {
    "franz-go": {},
    "kafka-go": {
        "TestConn": "its two subtests below",
        "TestConn/test_delete_topics": "a topic asked for is created before the answer, not after it",
        "TestConn/test_delete_topics_with_an_invalid_topic": "the same",
        "TestReaderReadCompactedMessage": _SMALL_SEGMENTS,
        "TestReaderConsumerGroup": "its subtest below",
        "TestReaderConsumerGroup/consumer_group_rebalance": "two readers want 12 of 24 records each, of 3 partitions",
    },
    "kafka-python": {},
    "kafka-streams": {},
    "kafka-security": {
        **{
            f"ConfigCommandIntegrationTest/{test}()[1]": reason
            for test, reason in {
                "testBrokerLoggerConfigUpdate": "sets the level of one of Java's loggers",
                "testUpdateInvalidBrokerConfigs": _UNKNOWN_SETTING,
                "testUpdateBrokerConfigNotAffectedByInvalidConfig": _UNKNOWN_SETTING,
                "testDynamicBrokerConfigUpdateUsingKraft": _KEY_STORES,
                "testUpdatePerBrokerConfigWithListenerNameInKRaftThenShouldSuccessful": _KEY_STORES,
            }.items()
        },
        "ClientQuotasRequestTest/testAlterIpQuotasRequest()[1]": "looks into Kafka's own broker",
    },
    "librdkafka": {
        "0077": _SMALL_SEGMENTS,
        "0103": "asks for three replicas",
        "0109": "wants to be forbidden a topic, and everybody is a super user here: run by librdkafka-secured",
        "0129": _SMALL_SEGMENTS,
    },
    "librdkafka-secured": {
        "0077": _SMALL_SEGMENTS,
        "0103": "asks for three replicas",
        "0129": _SMALL_SEGMENTS,
    },
    "sarama": {
        "TestFuncAdminUpdateFeatures": "UpdateFeatures is not served: a release has one level of each feature"
    },
}


@dataclass(slots=True)
class Report:
    suite: str = ""
    passed: int = 0
    skipped: int = 0
    expected: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return self.passed > 0 and not self.wrong

    def count(self, test: str, outcome: str) -> None:
        match outcome:
            case "PASS":
                self.passed += 1
            case "SKIP":
                self.skipped += 1
            case _ if test in EXPECTED[self.suite]:
                self.expected.append(test)
            case _:
                self.wrong.append(test)


def runnable() -> list[str]:
    """Those whose tools are installed."""
    needs = dict.fromkeys(("franz-go", "kafka-go", "sarama"), "go") | dict.fromkeys(
        ("librdkafka", "librdkafka-secured"), "cargo"
    )
    needs |= dict.fromkeys(("kafka-streams", "kafka-security"), "mvn")
    return [name for name in _SUITES if shutil.which(needs.get(name, sys.executable))]


def run(name: str, say: Callable[[str], None] = print) -> Report:
    report = Report(name)
    _SUITES[name](report, say)
    return report


# franz-go, kafka-go and sarama


def _franz_go(report: Report, say: Callable[[str], None]) -> None:
    source = _go_module("github.com/twmb/franz-go", FRANZ_GO)
    with with_logins() as (seeds, scram_seeds):
        environment = {
            "KGO_SEEDS": seeds,
            "KGO_TEST_SCRAM_SEEDS": scram_seeds,
            "KGO_TEST_SCRAM": f"{SCRAM_USER}:256",
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(RECORDS),
            "KGO_TEST_MAX_TOPIC_PARTS": "7",
            "KGO_LOG_LEVEL": "none",
        }
        _go_test(source, ["./pkg/kgo/"], environment, report, say)


def franz_gos_scram(bits: int, say: Callable[[str], None] = print) -> Report:
    """Its tests of SCRAM alone, with one of the mechanisms."""
    source, report = _go_module("github.com/twmb/franz-go", FRANZ_GO), Report("franz-go")
    with with_logins() as (seeds, scram_seeds):
        environment = {
            "KGO_SEEDS": seeds,
            "KGO_TEST_SCRAM_SEEDS": scram_seeds,
            "KGO_TEST_SCRAM": f"{SCRAM_USER}:{bits}",
        }
        _go_test(source, ["-run", "TestSCRAM", "./pkg/kgo/"], environment, report, say)
    return report


@contextmanager
def with_logins() -> Iterator[tuple[str, str]]:
    """A broker with a plain listener and one that asks for SCRAM: where they are."""
    plain, secured = free_ports(2)
    settings = {
        "auto.create.topics.enable": "true",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    }
    with Ottla(plain, settings=settings) as broker:
        user, password = SCRAM_USER.split(":")
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.set_user(user, password, ["SCRAM-SHA-256", "SCRAM-SHA-512"])
        yield broker.bootstrap, f"127.0.0.1:{secured}"


def _kafka_go(report: Report, say: Callable[[str], None]) -> None:
    source = _go_module("github.com/segmentio/kafka-go", KAFKA_GO)
    listeners = f"PLAINTEXT://localhost:{KAFKA_GO_PORT},SASL_PLAINTEXT://localhost:{KAFKA_GO_LOGIN_PORT}"
    settings = {
        "message.max.bytes": 200_000_000,
        "auto.create.topics.enable": "true",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *_KAFKA_GO_SCRAM]),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _KAFKA_GO_PLAIN,
        "allow.everyone.if.no.acl.found": "true",
        **_RULES,
    }
    say(_SUITE_PANICS + ": those subtests are left out")
    leave_out = "TestReaderConsumerGroup/(commits|interval|offset)"
    with Ottla(KAFKA_GO_PORT, settings=settings) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            for mechanism, password in _KAFKA_GO_SCRAM.items():
                admin.set_user("adminscram", password, [mechanism])
        options = ["-mod=mod", "-skip", leave_out, ".", "./sasl"]
        _go_test(source, options, {"KAFKA_VERSION": "3.7.0"}, report, say)


def _sarama(report: Report, say: Callable[[str], None]) -> None:
    source = _go_module("github.com/IBM/sarama", sarama_suite.SARAMA)
    options = ["-tags=functional", "-run", sarama_suite.functional_tests(source), "."]
    with sarama_suite.surroundings(_cache()) as environment:
        _go_test(source, options, environment, report, say)


def _go_module(path: str, version: str) -> Path:
    """A writable copy: the module cache is read-only, and kafka-go's go.mod wants to be updated."""
    target = _cache() / f"{path.rsplit('/', 1)[1]}-{version}"
    if not target.exists():
        answer = _output(["go", "mod", "download", "-json", f"{path}@{version}"], _cache())
        shutil.copytree(json.loads(answer)["Dir"], target, copy_function=shutil.copyfile)
        for each in [target, *target.rglob("*")]:
            each.chmod(each.stat().st_mode | 0o600)
    return target


def _go_test(
    source: Path, options: list[str], environment: dict[str, str], report: Report, say: Callable[[str], None]
) -> None:
    """`go test -v` writes a line `--- PASS: TestName (0.1s)` for every test and, indented, every subtest."""
    command = ["go", "test", "-p=1", "-v", "-count=1", "-timeout=40m", *options]
    output = _output(command, source, environment)
    (_cache() / f"{report.suite}.log").write_text(output)  # why a test failed stands in it
    for indent, outcome, test in re.findall(r"^( *)--- (PASS|FAIL|SKIP): (\S+)", output, re.MULTILINE):
        if not indent or outcome == "FAIL":
            report.count(test, outcome)
    if "\npanic: " in output:
        report.wrong.append("panic")
    say(f"{report.suite}: {report.passed} passed")


# kafka-python

_SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self): ...
    def close(self): ...


class SpawnedService(ExternalService): ...
"""


def _kafka_python(report: Report, say: Callable[[str], None]) -> None:
    folder = _cache() / f"kafka_python-{KAFKA_PYTHON}"
    if not folder.exists():
        wanted = ["--no-deps", "--no-binary", ":all:", f"kafka-python=={KAFKA_PYTHON}"]
        _output([sys.executable, "-m", "pip", "download", "-q", "-d", str(_cache()), *wanted], _cache())
        with tarfile.open(_cache() / f"{folder.name}.tar.gz") as archive:
            archive.extractall(_cache(), filter="data")
        (folder / "test" / "__init__.py").touch()  # the archive leaves these two out
        (folder / "test" / "service.py").write_text(_SERVICE)
    (port,) = free_ports(1)
    settings = {
        "num.partitions": 4,
        "node.id": 0,
        "group.min.session.timeout.ms": 1000,
        "auto.create.topics.enable": "true",
        **_RULES,
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",  # a test looks where the value comes from
    }
    with Ottla(port, settings=settings) as broker:
        environment = {
            "KAFKA_URI": f"kafka://{broker.bootstrap}",
            "KAFKA_VERSION": "4.3.0",
            "KAFKA_ROOT": str(folder),
            "PYTHONPATH": str(folder),
        }
        tests = [f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")]
        found = folder / "outcome.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--timeout=90", f"--junitxml={found}", *tests]
        _output(command, folder, environment)
    for case in ElementTree.parse(found).iter("testcase"):
        kinds = {each.tag for each in case}
        outcome = "FAIL" if kinds & {"failure", "error"} else "SKIP" if "skipped" in kinds else "PASS"
        report.count(str(case.get("name")), outcome)
    say(f"{report.suite}: {report.passed} passed")


# Kafka Streams


def _kafka_streams(report: Report, say: Callable[[str], None]) -> None:
    for test, outcome in streams_suite.outcomes():
        report.count(test, outcome)
        say(f"{report.suite}: {test} {outcome}")


# Apache Kafka's own tests of rules, users and quotas, those whose brokers can be others than Kafka's
_KAFKA_SECURITY = {
    "AclCommandTest": "org.apache.kafka.tools",
    "UserScramCredentialsCommandTest": "org.apache.kafka.tools",
    "ConfigCommandIntegrationTest": "org.apache.kafka.tools",
    "ClientQuotasRequestTest": "org.apache.kafka.server.quota",
}


def _kafka_security(report: Report, say: Callable[[str], None]) -> None:
    for name, package in _KAFKA_SECURITY.items():
        for test, outcome, _ in streams_suite.run_class("security_suite", package, name, 900):
            report.count(test, outcome)
            say(f"{report.suite}: {test} {outcome}")


# librdkafka

# Its own unit tests and its mock broker, what needs SASL or ACLs throughout, and one that measures speed.
_NOT_OURS = re.compile(
    "00(00|04|06|25|38|58|59|66|72|78|80|97)|01(15|19|24|26|28|33|34|35|42)|.*mock",
)
# With logins: those that are about them count, and Kafka's commands have none of their own.
_NO_LOGIN = re.compile("00(00|04|06|25|38|58|59|66|72|78|80|97)|01(24|26|33|34)|.*mock")
_RUNNER = {"LD_LIBRARY_PATH": "../src:../src-cpp", "TEST_KAFKA_VERSION": "4.3.0"}
_OUTCOMES = {"PASSED": "PASS", "SKIPPED": "SKIP"}
# 0081 deletes groups in the millisecond in which their sessions end, with Apache Kafka too: docs/compatibility.md.
_RACE, _RACE_TRIES = "Failed to delete groups: Broker: The group is not empty", 4


def _librdkafka(report: Report, say: Callable[[str], None]) -> None:
    tests = _built_librdkafka() / "tests"
    numbers = {each.name[:4] for each in tests.glob("0*-*.c*") if not _NOT_OURS.match(each.name)}
    # Its tests assume four partitions, and that members which start together are assigned together: but the largest
    # one has dozens of groups, and a limit of 180 s for all of them.
    for delay_ms, some in ((3000, sorted(numbers - {ADMIN_TEST})), (0, [ADMIN_TEST])):
        settings = {"group.initial.rebalance.delay.ms": delay_ms, **_RULES}
        _run_on_one_broker(tests, settings, some, report, say)


def _run_on_one_broker(
    tests: Path,
    settings: Mapping[str, object],
    numbers: Iterable[str],
    report: Report,
    say: Callable[[str], None],
) -> None:
    common = {"num.partitions": 4, "auto.create.topics.enable": "true"}
    with Ottla(settings={**common, **settings}) as broker, TemporaryDirectory() as folder:
        environment = _runner(Path(folder), [f"bootstrap.servers={broker.bootstrap}"])
        _provide_tools(Path(folder), broker.bootstrap, environment)
        for number in numbers:
            _run_librdkafka(tests, number, environment, report, say)


def _run_librdkafka(
    tests: Path, number: str, environment: dict[str, str], report: Report, say: Callable[[str], None]
) -> None:
    limit_s = 600 if number == ADMIN_TEST else 180
    for _ in range(_RACE_TRIES):
        output = _output(["./test-runner", "-Q", "-p1"], tests, {**environment, "TESTS": number}, limit_s)
        if _RACE not in output:
            break
    outcomes = re.findall(rf"\| {number}_\S+ +\| +([A-Z]+)", output)
    said = "PASSED" if "PASSED" in outcomes else outcomes[-1] if outcomes else ""
    (_cache() / f"{report.suite}-{number}.log").write_text(output)
    report.count(number, _OUTCOMES.get(said, "FAIL"))
    say(f"{report.suite}: {number} {said or 'FAILED'}")


# Those that add rules with kafka-acls: as nobody, on a broker where everybody may do what no rule forbids.
ADMIN_TEST = "0081"  # dozens of tests in one; it leaves rules behind when it fails, so it is the last
_RULED = ("0109", "0115", "0119", ADMIN_TEST)
_ABOUT_LOGINS = ("0128", "0135", "0142")
_OPEN_RULES = {
    "authorizer.class.name": _RULES["authorizer.class.name"],
    "allow.everyone.if.no.acl.found": "true",
}
_REAUTHENTICATION_MS = 10_000


def _librdkafka_secured(report: Report, say: Callable[[str], None]) -> None:
    """Tests about rules on an open broker; then all others with TLS and a login (SCRAM) on every connection."""
    tests = _built_librdkafka() / "tests"
    _run_on_one_broker(tests, {"group.initial.rebalance.delay.ms": 0, **_OPEN_RULES}, _RULED, report, say)
    numbers = {each.name[:4] for each in tests.glob("0*-*.c*") if not _NO_LOGIN.match(each.name)}
    with _secured() as lines, TemporaryDirectory() as folder:
        environment = _runner(Path(folder), lines)
        for number in (*_ABOUT_LOGINS, *sorted(numbers - {*_RULED, *_ABOUT_LOGINS})):
            _run_librdkafka(tests, number, environment, report, say)


def _runner(folder: Path, lines: list[str]) -> dict[str, str]:
    """The environment of its test runner, with a configuration of our own."""
    conf = folder / "test.conf"
    conf.write_text("".join(f"{line}\n" for line in lines))
    return {**_RUNNER, "RDKAFKA_TEST_CONF": str(conf)}


@contextmanager
def _secured() -> Iterator[list[str]]:
    """A broker that asks everybody for TLS and a login: the settings of a client that may do everything."""
    from ottla.security.certificates import Authority

    port = free_ports(1)[0]
    authority, user, password = Authority(), "tester", "a-secret"
    identity = authority.issue("broker", "localhost", "127.0.0.1")
    jaas = f'ScramLoginModule required username="{user}" password="{password}";'
    settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": jaas,
        "connections.max.reauth.ms": _REAUTHENTICATION_MS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key,
        "ssl.keystore.certificate.chain": identity.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
        "authorizer.class.name": _RULES["authorizer.class.name"],
        "super.users": f"User:{user}",
        "num.partitions": 4,
        "group.initial.rebalance.delay.ms": 3000,
        "auto.create.topics.enable": "true",
    }
    with TemporaryDirectory() as folder, Ottla(port, settings=settings) as broker:
        trusted = Path(folder) / "ca.pem"
        trusted.write_text(authority.pem)
        yield [
            f"bootstrap.servers={broker.bootstrap}",
            "security.protocol=SASL_SSL",
            f"ssl.ca.location={trusted}",
            "sasl.mechanisms=SCRAM-SHA-256",
            f"sasl.username={user}",
            f"sasl.password={password}",
        ]


def _built_librdkafka() -> Path:
    target = _cache() / f"librdkafka-{RDKAFKA_SYS}"
    if not (target / "tests" / "test-runner").exists():
        crate = _cache() / "crate"
        crate.mkdir(exist_ok=True)
        (crate / "lib.rs").touch()
        (crate / "Cargo.toml").write_text(
            '[package]\nname = "suite"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
            f'[dependencies]\nrdkafka-sys = "={RDKAFKA_SYS}"\n'
        )
        found = json.loads(_output(["cargo", "metadata", "-q", "--format-version=1"], crate))["packages"]
        manifest = next(each["manifest_path"] for each in found if each["name"] == "rdkafka-sys")
        shutil.copytree(Path(manifest).parent / "librdkafka", target, dirs_exist_ok=True)
        for command, folder in (
            (["./configure", "--disable-sasl"], target),
            (["make", "-j2", "libs"], target),
            (["make", "-j2", "build"], target / "tests"),
        ):
            _output(command, folder)
    return target


def _provide_tools(folder: Path, bootstrap: str, environment: dict[str, str]) -> None:
    """Some tests create topics and rules with Kafka's commands: ours take the same options, and start faster."""
    tools = folder / "tool" / "bin"
    tools.mkdir(parents=True, exist_ok=True)
    project = Path(__file__).parents[2]
    for name, command in (
        ("kafka-topics.sh", "tests.soak.suites --kafka-topics --"),
        ("kafka-acls.sh", "ottla kafka-acls"),
    ):
        (tools / name).write_text(f'#!/bin/sh\ncd {project} && exec {sys.executable} -m {command} "$@"\n')
        (tools / name).chmod(0o755)
    environment |= {"KAFKA_PATH": str(folder / "tool"), "BROKERS": bootstrap}


def _kafka_topics(given: list[str]) -> int:
    from confluent_kafka.admin import AdminClient, NewTopic

    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--create", action="store_true")
    parser.add_argument("--topic")
    parser.add_argument("--partitions", type=int, default=-1)
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--config", action="append", default=[])
    options = parser.parse_args(given)
    config = dict(each.split("=", 1) for each in options.config)
    topic = NewTopic(options.topic, options.partitions, options.replication_factor, config=config)
    admin = AdminClient({"bootstrap.servers": options.bootstrap_server})
    for made in admin.create_topics([topic]).values():
        made.result()
    return 0


_SUITES: dict[str, Callable[[Report, Callable[[str], None]], None]] = {
    "franz-go": _franz_go,
    "kafka-go": _kafka_go,
    "kafka-python": _kafka_python,
    "kafka-streams": _kafka_streams,
    "kafka-security": _kafka_security,
    "librdkafka": _librdkafka,
    "librdkafka-secured": _librdkafka_secured,
    "sarama": _sarama,
}


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "ottla-suites"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _output(
    command: list[str], folder: Path, environment: dict[str, str] | None = None, timeout_s: float = 3600
) -> str:
    """What it wrote, without colours. A suite's exit code says less than its lines."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=None if command[0] in ("cargo", "go") else subprocess.STDOUT,
            timeout=timeout_s,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return ""
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def main() -> int:
    if sys.argv[1:2] == ["--kafka-topics"]:
        return _kafka_topics(sys.argv[3:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", choices=[[], *_SUITES], metavar="SUITE", help=", ".join(_SUITES))
    clean = True
    for name in parser.parse_args().suites or runnable():
        report = run(name)
        summary = {each: getattr(report, each) for each in report.__slots__}
        print(json.dumps({**summary, "clean": report.is_clean}), flush=True)
        clean = clean and report.is_clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
