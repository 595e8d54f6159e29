"""The pytest plugin, in test runs of its own."""

import pytest

pytest_plugins = ["pytester"]

PRODUCE = """
from confluent_kafka import Producer

def produce(bootstrap, topic, *values, **settings):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
"""


@pytest.fixture
def run(pytester):
    def run(source: str, *arguments: str, outcome: dict[str, int], apart: bool = False) -> pytest.RunResult:
        pytester.makepyfile(PRODUCE + source)
        runner = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        result = runner("-p", "no:cacheprovider", *arguments)
        result.assert_outcomes(**outcome)
        return result

    return run


def test_fixtures_are_there_without_a_line_of_set_up(run):
    run(
        """
def test_all(ottla_broker, ottla_bootstrap, ottla_topic, ottla_admin):
    assert ottla_bootstrap == ottla_broker.bootstrap
    produce(ottla_bootstrap, ottla_topic, b"one")
    assert [each.value for each in ottla_broker.records(ottla_topic)] == [b"one"]
    assert ottla_topic in ottla_admin.list_topics()
""",
        outcome={"passed": 1},
    )


def test_nothing_of_ours_is_imported_until_a_fixture_is_used(run):
    run(
        """
import sys

def test_imports():
    ours = {name for name in sys.modules if name.startswith("ottla.") and "testing" not in name}
    assert ours <= {"ottla.lazy"}
    assert "ottla.testing.broker" not in sys.modules
""",
        outcome={"passed": 1},
        apart=True,
    )


def test_tests_share_the_broker_of_the_session_and_get_topics_of_their_own(run):
    run(
        """
SEEN = []

def test_one(ottla_session_broker, ottla_topic, ottla_bootstrap):
    assert ottla_bootstrap == ottla_session_broker.bootstrap
    SEEN.append((ottla_bootstrap, ottla_topic))

def test_two(ottla_session_broker, ottla_topic, ottla_bootstrap):
    (bootstrap, topic), = SEEN
    assert bootstrap == ottla_bootstrap and topic != ottla_topic
    assert list(ottla_session_broker.topics()) == [ottla_topic]  # the other one is gone with its test
""",
        outcome={"passed": 2},
    )


def test_a_fresh_broker_knows_nothing_of_the_one_before(run):
    run(
        """
import pytest

@pytest.mark.parametrize("turn", range(3))
def test_fresh(ottla_broker, turn):
    assert ottla_broker.topics() == {}
    ottla_broker.create_topic("mine")
""",
        outcome={"passed": 3},
    )


def test_a_marker_sets_partitions_and_configs(run):
    run(
        """
import pytest

pytestmark = pytest.mark.ottla(partitions=2)

@pytest.mark.ottla(partitions=3, topic_configs={"cleanup.policy": "compact"})
def test_topic(ottla_topic, ottla_session_broker, ottla_admin):
    assert ottla_session_broker.topics()[ottla_topic] == 3
    with pytest.raises(AssertionError, match="INVALID_RECORD"):
        produce_unkeyed(ottla_session_broker.bootstrap, ottla_topic)

def produce_unkeyed(bootstrap, topic):
    from confluent_kafka import Producer
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"no key", on_delivery=lambda error, message: failed.append(error))
    producer.flush(60)
    assert failed == [None], failed[0].name()

def test_of_the_module(ottla_topic, ottla_session_broker):
    assert ottla_session_broker.topics()[ottla_topic] == 2

@pytest.mark.ottla(num_partitions=5, auto_create_topics_enable=True)
def test_broker_settings_bring_a_fresh_broker(ottla_bootstrap, ottla_broker):
    produce(ottla_bootstrap, "by-itself", b"x")
    assert ottla_broker.topics() == {"by-itself": 5}

@pytest.mark.ottla(data=True)
def test_on_disk(ottla_broker, tmp_path):
    ottla_broker.create_topic("kept")
    produce(ottla_broker.bootstrap, "kept", b"x")
    assert (tmp_path / "ottla" / "kept-0").is_dir()
""",
        outcome={"passed": 4},
    )


def test_a_failing_test_shows_the_last_requests_of_its_brokers(run):
    result = run(
        """
from ottla.testing import Broker

def test_of_a_fixture(ottla_broker, ottla_topic):
    produce(ottla_broker.bootstrap, ottla_topic, b"x", **{"client.id": "shop"})
    assert False

def test_made_by_hand():
    with Broker() as broker:
        broker.create_topic("orders")
        produce(broker.bootstrap, "orders", b"x", **{"client.id": "till"})
        assert False

def test_passes(ottla_broker):
    pass
""",
        outcome={"failed": 2, "passed": 1},
    )
    result.stdout.fnmatch_lines(
        [
            "*last requests to <ottla.testing.Broker 127.0.0.1:*",
            "*shop: Produce v* test_of_a_fixture-*-0 -> ok*",
        ]
    )
    result.stdout.fnmatch_lines(["*till: Produce v* orders-0 -> ok*"])


def test_whatever_a_test_does_the_next_one_finds_everything_whole(run):
    run(
        """
import threading

def test_breaks_everything(ottla_session_broker, ottla_topic):
    ottla_session_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=None)
    ottla_session_broker.fill_disk()
    ottla_session_broker.crash()
    assert False

def test_goes_on(ottla_session_broker, ottla_topic):
    produce(ottla_session_broker.bootstrap, ottla_topic, b"x")
    assert len(ottla_session_broker.records(ottla_topic)) == 1

def test_own(ottla_broker):
    ottla_broker.crash()
    assert False

def test_nothing_is_left():
    assert len([each for each in threading.enumerate() if each.name.startswith("ottla")]) == 1
""",
        outcome={"passed": 2, "failed": 2},
    )


def test_parallel_runs_do_not_collide(run):
    run(
        """
import pytest

@pytest.mark.parametrize("turn", range(8))
def test_shared(ottla_session_broker, ottla_topic, turn):
    produce(ottla_session_broker.bootstrap, ottla_topic, b"%d" % turn)
    assert [each.value for each in ottla_session_broker.records(ottla_topic)] == [b"%d" % turn]
""",
        "-n2",
        outcome={"passed": 8},
        apart=True,
    )


def test_a_thousand_tests_with_a_broker_each_leave_nothing_behind(run):
    run(
        """
import gc
import os
import threading
import pytest

BEFORE = {}

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

@pytest.mark.parametrize("number", range(1000))
def test_own_broker(ottla_broker, number):
    ottla_broker.create_topic("t")
    if number == 100:  # caches are warm
        BEFORE.update(handles=len(os.listdir("/proc/self/fd")), mb=resident_mb())

def test_nothing_is_left():
    gc.collect()
    assert [each.name for each in threading.enumerate() if each.name.startswith("ottla")] == []
    assert len(os.listdir("/proc/self/fd")) <= BEFORE["handles"]
    assert resident_mb() - BEFORE["mb"] < 40  # pytest itself keeps some of every test
""",
        outcome={"passed": 1001},
        apart=True,
    )


def test_asserts_of_the_package_are_not_rewritten(request):
    """Threads of brokers import while tests run, and Python 3.11 cannot parse in two threads at once."""
    import importlib.util

    find = request.config.pluginmanager.rewrite_hook.find_spec
    assert find("ottla.broker.routes") is None
    assert importlib.util.find_spec("ottla.broker.routes") is not None
