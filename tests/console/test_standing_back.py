"""A search gives way to everybody else on the machine, and yet ends on a busy one."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
os.getloadavg = lambda: ({load}, 0.0, 0.0)
from ottla.console.search_process import stand_back
stand_back()
print(os.sched_getscheduler(0), os.nice(0))
"""


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the scheduler of Linux")
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_search_takes_what_others_leave_but_has_a_share_of_a_busy_machine(is_busy):
    load = len(os.sched_getaffinity(0)) if is_busy else 0.5
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(load=load)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    policy, nice = map(int, done.stdout.split())
    assert policy == (os.SCHED_OTHER if is_busy else os.SCHED_IDLE)
    assert nice >= 10
