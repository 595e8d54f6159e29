"""How much a start imports: what is not needed before the first record is acknowledged has to wait.

Time is not measured here, it would depend on the machine: the lists below are what keeps a start short.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client import Producer
from ottla.wire import kernel

OTTLA = str(Path(sys.executable).with_name("ottla"))

# Packages and modules, with all that is below them.
NOT_FOR_A_BROKER = {
    # of others
    *(
        "cramjam",
        "difflib",
        "hashlib",
        "http",
        "importlib.metadata",
        "json",
        "kio",
        "lz4",
        "numpy",
        "pathlib",
    ),
    *("platform", "pyarrow", "pyspark", "re2", "shutil", "tempfile", "urllib", "uuid", "zstandard"),
    # for a cluster
    *("ottla.broker.pump", "ottla.replication.fetcher", "ottla.server.peers", "ottla.server.watch"),
    *("ottla.metadata.partitions", "ottla.metadata.reassignment", "ottla.server.zookeeper"),
    # for groups and transactions
    *("ottla.broker.markers", "ottla.coordination.groups", "ottla.coordination.transactions.machine"),
    # for later
    *("ottla.server.gauges", "ottla.server.http", "ottla.storage.cleaner", "ottla.storage.compaction"),
    *("ottla.storage.move", "ottla.storage.rewrite"),
    # for others
    *("ottla.client", "ottla.homecare", "ottla.spark", "ottla.wire.columns"),
}
COMPILED = {"ottla.wire.kernel_columns_py", "ottla.wire.kernel_py", "ottla.wire.kernel_rows_py"}
# Where the standard library's frozen dataclasses are left: they take five times as long to make as `@frozen`.
SLOW = {"ottla.coordination.transactions.gate", "ottla.storage.flush", "ottla.storage.recovery"}


def test_a_broker_imports_for_its_first_record_only_what_that_needs(tmp_path):
    imported = modules_of_a_start(tmp_path)
    assert not of(imported, NOT_FOR_A_BROKER | {"ottla.storage.memory", "ottla.testing"})
    assert messages(imported) == {"api_versions", "metadata", "produce"}


def test_the_testing_kit_imports_for_a_broker_only_what_that_needs():
    imported = modules_after("from ottla.testing import Broker\nwith Broker(): pass")
    assert not of(imported, NOT_FOR_A_BROKER)
    assert messages(imported) <= {"fetch"}


@pytest.mark.skipif(not kernel.COMPILED, reason="there is no compiled kernel")
def test_where_the_kernel_is_compiled_the_other_is_not_imported(tmp_path):
    assert not of(modules_of_a_start(tmp_path), COMPILED)


def test_frozen_classes_on_the_way_to_a_broker_are_of_the_quick_kind():
    look = """
import sys
import ottla.cli.start, ottla.server.node
for name, module in list(sys.modules.items()):
    for each in list(vars(module).values()) if name.startswith("ottla.") else ():
        made = getattr(each, "__dataclass_params__", None)
        if made is not None and made.frozen and hasattr(each, "__slots__"):
            print("slow", each.__module__)
"""
    found = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"^slow (\S+)$", found, re.MULTILINE)) <= SLOW


def modules_of_a_start(folder):
    """What `ottla start` has imported when its first record is acknowledged."""
    trace = folder / "trace"
    command = [sys.executable, "-v", OTTLA, "start", "--port", "0", "--data", folder / "data"]
    with trace.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        address = process.stdout.readline().split()[1]
        with Producer({"bootstrap.servers": address, "enable.idempotence": False}) as producer:
            producer.send("t", b"x").result(30)
    finally:
        process.kill()
        process.communicate()
    return traced(trace.read_text())


def modules_after(code):
    done = subprocess.run([sys.executable, "-v", "-c", code], check=True, capture_output=True, text=True)
    return traced(done.stderr)


def traced(text):
    """In what `python -v` says, from our first module on: what a start of Python itself brings is not ours.
    -X importtime would leave out what comes by importlib.import_module."""
    found = re.findall(r"^import '(\S+)' #", text, re.MULTILINE)
    assert "ottla.server.node" in found
    return set(found[found.index("ottla") :])


def of(imported, packages):
    return {
        each for each in imported if any(each == name or each.startswith(name + ".") for name in packages)
    }


def messages(imported):
    folder = "ottla.wire.messages."
    return {each.removeprefix(folder) for each in imported if each.startswith(folder)}
