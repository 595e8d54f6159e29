"""How much a start imports: what is not needed before the first record is acknowledged has to wait.

Time is not measured here, it would depend on the machine: the list below is what keeps a start short. A module is on
it if importing it takes more than a millisecond (`python -X importtime`) or goes with one that does. Only for what is
on the list does a module that a start loads import inside a function.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client import Producer
from ottla.wire import kernel

OTTLA = str(Path(sys.executable).with_name("ottla"))

# Packages and modules, with everything below them.
NOT_FOR_A_BROKER = {
    # of Python
    *(
        "ctypes",
        "difflib",
        "hashlib",
        "hmac",
        "http",
        "importlib.metadata",
        "importlib.util",
        "json",
        "pathlib",
    ),
    *("ipaddress", "platform", "shutil", "tempfile", "urllib", "uuid"),
    # of others
    *("cramjam", "kio", "lz4", "numpy", "pyarrow", "pyspark", "re2", "zstandard"),
    # for a cluster
    *("ottla.broker.cluster.envelopes", "ottla.broker.cluster.pump", "ottla.replication.fetcher"),
    *("ottla.metadata.partitions", "ottla.metadata.reassignment"),
    *("ottla.server.links", "ottla.server.peers", "ottla.server.watch", "ottla.server.zookeeper"),
    # for logins, rights and quotas
    *("ottla.broker.permits.access", "ottla.broker.permits.guards", "ottla.broker.permits.table"),
    *("ottla.broker.requests.authentication", "ottla.broker.requests.metering"),
    *(
        "ottla.config.jaas",
        "ottla.config.java_logins",
        "ottla.security.passwords",
        "ottla.server.first_users",
        "ottla.server.logins",
        "ottla.server.tls_connection",
        "ottla.security.tokens",
        "ottla.server.gate",
        "ottla.server.handshakes",
        "ottla.server.plugins",
    ),
    # for groups and transactions
    *(
        "ottla.broker.transactions.elsewhere",
        "ottla.broker.transactions.markers",
        "ottla.coordination.groups",
        "ottla.broker.contracts",
        "ottla.broker.sharing.sharing",
        "ottla.coordination.share",
    ),
    "ottla.coordination.transactions.machine",
    *("ottla.coordination.transactions.records", "ottla.coordination.transactions.settings"),
    # for later
    *(
        "ottla.server.metrics",
        "ottla.server.http",
        "ottla.server.json_logs",
        "ottla.broker.coordinators.lag",
        "ottla.broker.telemetry",
        "ottla.storage.cleaner",
        "ottla.storage.compaction",
    ),
    *("ottla.storage.move", "ottla.storage.rewrite"),
    *("ottla.cli.container", "ottla.server.staging"),
    # for others
    *("ottla.cli.kafka_options", "ottla.client", "ottla.homecare", "ottla.spark", "ottla.wire.columns"),
}
MESSAGES = {"api_versions", "metadata", "produce"}
# Used by every start, but not before it has to: handlers come with their first request.
WHEN_FIRST_USED = {
    *(
        "ottla.broker.handlers",
        "ottla.broker.requests.parts",
        "ottla.cli.extras",
        "ottla.cli.suggestions",
        "ottla.config.topic",  # by a command that was refused a setting
        "ottla.server.node",
        "ottla.wire._kernel",
        "ssl",
        "ottla.wire.kernel",
        "uvloop",
    ),
}
COMPILED = {"ottla.wire.kernel_columns_py", "ottla.wire.kernel_py", "ottla.wire.kernel_rows_py"}
# Where the standard library's frozen dataclasses are left: they take five times as long to make as `@frozen`.
SLOW = {"ottla.coordination.transactions.gate", "ottla.storage.flush", "ottla.storage.recovery"}


def test_a_broker_imports_for_its_first_record_only_what_that_needs(tmp_path):
    imported = modules_of_a_start(tmp_path)
    assert not of(imported, NOT_FOR_A_BROKER | {"ottla.storage.memory", "ottla.testing"})
    assert messages(imported) == MESSAGES


def test_the_testing_kit_imports_for_a_broker_only_what_that_needs():
    imported = modules_after("from ottla.testing import Broker\nwith Broker(): pass")
    assert not of(imported, NOT_FOR_A_BROKER)
    assert messages(imported) <= {"fetch"}


@pytest.mark.skipif(not kernel.COMPILED, reason="there is no compiled kernel")
def test_where_the_kernel_is_compiled_the_other_is_not_imported(tmp_path):
    assert not of(modules_of_a_start(tmp_path), COMPILED)


NOT_FOR_A_TOPOLOGY = {
    *("pandas", "pyarrow.compute", "pyspark"),
    *("ottla.client.admin", "ottla.client.columnar", "ottla.client.session", "ottla.pipelines.state.files"),
    *("ottla.pipelines.cluster_log", "ottla.pipelines.driver", "ottla.spark", "ottla.streams.queries"),
}


def test_a_topology_of_functions_is_tested_without_pandas_spark_and_a_client():
    """numpy and pyarrow themselves are two thirds of the time to the first result; these would double it."""
    code = """
import sys
from ottla.streams import App, TestDriver, int64, string
app = App("words")
words = app.stream("lines", value=string).flat_map_values(str.split, value=string)
words.group_by(lambda key, word: word).count(name="counts").to_stream().to("out", value=int64)
with TestDriver(app) as driver:
    driver.input("lines").pipe("hello world hello")
    driver.input("lines").pipe("hello")
    assert driver.output("out").table() == {"hello": 3, "world": 1}
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not of(set(done.stdout.split()), NOT_FOR_A_TOPOLOGY)


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


def test_a_module_of_the_start_imports_inside_a_function_only_what_is_on_the_list(tmp_path):
    imported = modules_of_a_start(tmp_path)
    may_wait = NOT_FOR_A_BROKER | COMPILED | WHEN_FIRST_USED | {"ottla.storage.memory"}
    for module in sorted(each for each in imported if each.startswith("ottla")):
        late = imports_inside_functions(module)
        late -= of(late, may_wait) | {each for each in late if messages([each]) - MESSAGES}
        assert not late, f"{module} imports {late} inside a function: list it, or import it at the top"


def imports_inside_functions(module):
    source = Path(importlib.util.find_spec(module).origin)
    if source.suffix != ".py":
        return set()
    functions = [
        node
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {name for function in functions for node in ast.walk(function) for name in imported_by(node)}


def imported_by(node):
    """`from package import module` counts as the module."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        submodules = {each for each in names if is_module(each)}
        return submodules or {node.module}
    return set()


def is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def modules_of_a_start(folder):
    """What `ottla start` has imported when its first record is acknowledged."""
    trace = folder / "trace"
    command = [sys.executable, "-v", OTTLA, "start", "--port", "0", "--data", folder / "data"]
    with trace.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        address = process.stdout.readline().split()[1]
        with Producer({"bootstrap.servers": address, "enable.idempotence": False}) as producer:
            producer.send("t", b"x").result(60)
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
