"""Free memory goes back to the system after a burst, and nothing is done without one."""

from ottla.server import trim
from ottla.server.trim import EVERY_MS, GROWTH_BYTES, Trimmer
from tests.unit.server.test_budget import Clock


class Jobs:
    def __init__(self):
        self.done = []

    def submit(self, job, done):
        self.done.append(job)  # not done: it would be for the process that runs all tests
        done(None)


def test_memory_is_given_back_once_the_process_has_grown():
    clock, jobs, resident = Clock(), Jobs(), [50 << 20]
    drops = []
    trimmer = Trimmer(clock, jobs, lambda: drops.append(clock.monotonic_ms()), lambda: resident[0])
    trimmer.start()
    clock.advance(EVERY_MS)
    clock.advance(EVERY_MS)
    assert jobs.done == [trim.set_thresholds]
    drops.clear()
    resident[0] += GROWTH_BYTES
    clock.advance(EVERY_MS)
    clock.advance(EVERY_MS)
    assert jobs.done == [trim.set_thresholds, trim.trim, trim.trim]
    assert len(drops) == 2


def test_a_process_knows_its_size():
    before = trim.resident_bytes_of_process()
    grown = bytearray(b"x" * (64 << 20))
    assert trim.resident_bytes_of_process() - before > 32 << 20
    del grown
