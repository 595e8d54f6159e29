"""Which figures of a benchmark are published."""

import subprocess
import sys

from bench import conditions, run
from bench.conditions import LOAD_MAX, Others, OwnProcesses, load_of_others, may_publish, may_write
from bench.measure import Benchmark, Metric, Scale

METRIC = Metric("produce", "msg/s")


def test_what_our_processes_did_not_use_is_the_load_of_others():
    assert load_of_others(busy_s=7.0, own_s=4.0, took_s=4.0) == 0.75
    assert load_of_others(busy_s=1.0, own_s=1.01, took_s=1.0) == 0.0


def test_the_work_of_a_process_that_is_no_descendant_any_more_is_ours():
    """Apache Kafka's brokers are started by a script that ends."""
    work = "import sys, time\nwhile time.process_time() < 0.2: pass\nprint(flush=True); sys.stdin.read()"
    script = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
    with OwnProcesses() as own:
        command = [sys.executable, "-c", script, work]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()  # the orphan has worked, and waits for us
            own.look()
    assert own.used_s() >= 0.15


def test_a_round_beside_load_of_others_does_not_count(monkeypatch):
    benchmark = Benchmark("produce", lambda peer, scale: {METRIC: 5.0})
    for cores, counted in ((0.0, {METRIC: 5.0}), (LOAD_MAX * 2, {})):
        monkeypatch.setattr(conditions, "load_of_others", lambda *_, cores=cores: cores)
        assert run._run_one(benchmark, "ottla", Scale()) == counted


def test_a_figure_of_fewer_than_three_quiet_rounds_is_not_published(capsys):
    assert may_publish("produce", {"kafka": [1.0] * 3, "ottla": [1.0] * 3})
    assert not may_publish("produce", {"kafka": [1.0] * 3, "ottla": [1.0] * 2})
    assert capsys.readouterr().err == "produce is not published: 2 quiet rounds, and 3 are needed\n"
    assert may_write(Others(), rounds=3)
    assert not may_write(Others(cores=1.0), rounds=3)


def test_others_are_quiet_up_to_the_limit():
    assert Others(LOAD_MAX).are_quiet
    assert not Others(LOAD_MAX + 0.01).are_quiet
