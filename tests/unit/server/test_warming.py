"""What ordinary requests need is imported after the start, one kind after the other, and a start does not wait."""

import subprocess
import sys

from ottla.broker.routes import ROUTES
from ottla.server.warming import AFTER_MS, MODULES, PAUSE_MS, Warming
from tests.unit.server.test_budget import Clock


class Jobs:
    def __init__(self):
        self.count = 0

    def submit(self, job, done):
        self.count += 1
        job()
        done(None)


def test_each_kind_of_request_has_a_turn_of_its_own():
    clock, jobs = Clock(), Jobs()
    Warming(clock, jobs).start()
    assert jobs.count == 0
    clock.advance(AFTER_MS)
    assert jobs.count == 1
    for _ in ROUTES:
        clock.advance(PAUSE_MS)
    assert jobs.count == sum(route.module in MODULES for route in ROUTES.values())


def test_the_names_are_those_of_handlers():
    assert {route.module for route in ROUTES.values()} >= MODULES


def test_afterwards_the_first_request_imports_nothing():
    """In a process of its own: here others have imported them."""
    program = """
import sys
from tests.unit.server.test_budget import Clock
from tests.unit.server.test_warming import Jobs
from ottla.server.warming import AFTER_MS, MODULES, PAUSE_MS, Warming
clock = Clock()
Warming(clock, Jobs()).start()
clock.advance(AFTER_MS)
for _ in range(200):
    clock.advance(PAUSE_MS)
assert not {f"ottla.broker.handlers.{name}" for name in MODULES} - set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
