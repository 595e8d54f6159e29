"""Work in threads: what comes of it, and that nothing of it is left behind."""

import gc
import weakref

from ottla.broker.waits import Wait
from ottla.server.disk import ThreadJobs


class Held:
    """What a job has in its hands: decompressed records, say."""


class Loop:
    def call_soon_threadsafe(self, callback, *arguments):
        callback(*arguments)


def outcome(job):
    results = []
    jobs = ThreadJobs(Loop(), threads=1)  # type: ignore[arg-type]
    jobs.submit(job, results.append)
    jobs.close()
    return results.pop()


def test_what_a_failed_job_held_is_free_without_the_collector():
    held = []

    def job():
        buffer = Held()
        held.append(weakref.ref(buffer))
        raise ValueError("no")

    gc.disable()
    try:
        result = outcome(job)
        assert isinstance(result, ValueError)
        del result
        assert held[0]() is None
    finally:
        gc.enable()


def test_what_a_failed_job_held_is_free_even_if_nobody_asks_for_the_outcome():
    held, waits = [], [Wait()]

    def job():
        buffer = Held()
        held.append(weakref.ref(buffer))
        raise ValueError("no")

    gc.disable()
    try:
        jobs = ThreadJobs(Loop(), threads=1)  # type: ignore[arg-type]
        jobs.submit(job, waits[0].set)
        jobs.close()
        assert waits.pop().done
        assert held[0]() is None
    finally:
        gc.enable()
