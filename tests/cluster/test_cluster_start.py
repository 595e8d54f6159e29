"""`ottla cluster start`, as somebody types it who wants to try a cluster on one machine."""

import subprocess
import sys

import pytest

import ottla
from ottla.ensemble import why_not
from tests.oracle.ports import free_block

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


def test_a_broker_with_an_ensemble_of_three_takes_records(tmp_path):
    block = free_block([0, 1, 2])
    line = [
        *("cluster", "start", "--brokers", "1", "--port", "0"),
        *("--zookeepers", "3", "--data", str(tmp_path)),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", *line, "--zookeeper-port", str(block.base)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        ready = process.stdout.readline().split()
        assert ready[:1] == ["ready"], process.stderr.read()
        with ottla.Producer(bootstrap_servers=ready[1]) as producer:
            assert producer.send("greetings", "hello").result(60).offset == 0
        assert len(list(tmp_path.glob("zookeeper-*"))) == 3
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
        block.close()
