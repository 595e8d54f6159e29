"""Apache Kafka's own integration tests of Kafka Streams, those that know the streams protocol (KIP-1071).

They start brokers inside their own process; a class of the same name (tests/oracle/streams_suite) starts Ottla instead.
The tests come from Maven and are never kept here.

    python -m tests.soak.streams_suite [CLASS ...] [--seconds N]

runs some classes only, and prints why a test failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from tests.oracle import programs

PACKAGE = "org.apache.kafka.streams.integration"
# Without KafkaStreamsTelemetryIntegrationTest: it reads what a plug-in inside of the broker's JVM has collected.
CLASSES = (
    "EosIntegrationTest",
    "HandlingSourceTopicDeletionIntegrationTest",
    "InternalTopicIntegrationTest",
    "IQv2EndpointToPartitionsIntegrationTest",
    "IQv2IntegrationTest",
    "IQv2StoreIntegrationTest",
    "IQv2VersionedStoreIntegrationTest",
    "JoinWithIncompleteMetadataIntegrationTest",
    "KStreamRepartitionIntegrationTest",
    "MetricsIntegrationTest",
    "RebalanceProtocolMigrationIntegrationTest",
    "RestoreIntegrationTest",
    "RocksDBMetricsIntegrationTest",
    "SmokeTestDriverIntegrationTest",
    "StandbyTaskCreationIntegrationTest",
    "StreamsUncaughtExceptionHandlerIntegrationTest",
)
Outcome = tuple[str, str]  # class and test; PASS, SKIP or FAIL


def is_runnable() -> bool:
    return shutil.which("mvn") is not None and programs.why_not_java() is None


def outcomes(classes: Sequence[str] = CLASSES, timeout_s: float = 3600) -> Iterator[Outcome]:
    """Of each test; a class that was not finished in time fails as a whole."""
    for name in classes:
        for test, outcome, _ in run_class("streams_suite", PACKAGE, name, timeout_s):
            yield test, outcome


def run_class(suite: str, package: str, name: str, timeout_s: float) -> Iterator[tuple[str, str, str]]:
    """Tests of one of Kafka's classes, their outcomes, and why one failed; `suite` is the folder of tests/oracle with
    what stands in for Kafka's brokers."""
    with tempfile.TemporaryDirectory(prefix="ottla-suite-") as folder:
        command = programs.suite_command(
            suite,
            "org.junit.platform.console.ConsoleLauncher",
            "execute",
            "--disable-banner",
            f"--select-class={package}.{name}",
            f"--reports-dir={folder}",
            properties={
                "ottla.python": sys.executable,
                "ottla.project": str(Path(__file__).parents[2]),
                "junit.jupiter.extensions.autodetection.enabled": "true",  # Kafka's @ClusterTest is one of them
            },
        )
        quiet = subprocess.DEVNULL
        tests = subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            tests.wait(timeout_s)
        except subprocess.TimeoutExpired:
            yield name, "FAIL", f"not finished after {timeout_s:.0f} s"
            return
        finally:  # also brokers that it has started and left
            with suppress(ProcessLookupError):
                os.killpg(tests.pid, signal.SIGKILL)
            tests.wait()
        yield from _reported(name, Path(folder) / "TEST-junit-jupiter.xml")


def _reported(name: str, report: Path) -> Iterator[tuple[str, str, str]]:
    if not report.exists():
        yield name, "FAIL", "no report"
        return
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {each.tag for each in case}
        outcome = "FAIL" if kinds & {"failure", "error"} else "SKIP" if "skipped" in kinds else "PASS"
        reason = next((each.text or "" for each in case if each.tag in ("failure", "error")), "")
        yield f"{name}/{case.get('name')}", outcome, reason


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("classes", nargs="*", default=CLASSES, metavar="CLASS")
    parser.add_argument("--seconds", type=float, default=3600, help="for each class")
    options = parser.parse_args()
    failed = False
    for name in options.classes:
        for test, outcome, reason in run_class("streams_suite", PACKAGE, name, options.seconds):
            print(outcome, test, flush=True)
            if outcome == "FAIL":
                failed = True
                print(reason[:3000], flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
