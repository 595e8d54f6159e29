"""Work of a connection in steps, and heavy work in threads."""

from ottla.broker.stepping import STEP_BYTES, HeavyWork, Work, rest
from ottla.broker.waits import Running
from ottla.testing.world.time import Time


class HeldJobs:
    """Jobs that a test ends when it wants."""

    def __init__(self):
        self.under_way = []

    def submit(self, job, done):
        self.under_way.append((job, done))

    def end_first(self):
        job, done = self.under_way.pop(0)
        try:
            done(job())
        except Exception as error:
            done(error)


def started(coroutine):
    """The request, and the list that gets its result or error."""
    results = []
    running = Running(coroutine, lambda result, error: results.append(error or result))
    running.step()
    return running, results


def test_a_connection_rests_after_a_step_however_many_requests_that_was():
    work = Work()
    rests = [work.spend(STEP_BYTES // 10) for _ in range(100)]
    assert sum(rests) == 9  # a step and a little, each
    assert work.spend(50 * STEP_BYTES)
    assert not work.spend(STEP_BYTES // 2)


def test_who_rests_goes_on_at_the_next_turn():
    time = Time()
    _, results = started(rest(time))
    assert results == []
    assert time.next_event()
    assert results == [None]


def test_a_request_that_is_cancelled_while_it_rests_leaves_no_timer():
    time = Time()
    running, results = started(rest(time))
    running.cancel()
    assert not time.next_event()
    assert results == []


def test_heavy_work_runs_a_few_at_a_time_in_order():
    jobs = HeldJobs()
    lane = HeavyWork(jobs, at_once=2)
    requests = [started(lane.run(lambda number=number: number)) for number in range(5)]
    assert len(jobs.under_way) == 2
    for number in range(5):
        jobs.end_first()
        assert [results for _, results in requests if results] == [[each] for each in range(number + 1)]
    assert jobs.under_way == []


def test_who_asks_again_at_once_comes_after_those_who_wait():
    jobs = HeldJobs()
    lane = HeavyWork(jobs, at_once=1)
    order = []

    async def greedy():
        for number in range(2):
            await lane.run(lambda number=number: order.append(f"greedy {number}"))

    started(greedy())
    started(lane.run(lambda: order.append("patient")))
    while jobs.under_way:
        jobs.end_first()
    assert order == ["greedy 0", "patient", "greedy 1"]


def test_cancelled_requests_give_up_their_places_and_hold_no_more_than_a_few_jobs():
    jobs = HeldJobs()
    lane = HeavyWork(jobs, at_once=1)
    requests = [started(lane.run(lambda: "done")) for _ in range(1_000)]
    last = started(lane.run(lambda: "last"))
    for running, _ in requests:
        running.cancel()
    assert len(jobs.under_way) == 1
    jobs.end_first()  # its request is gone, its thread was not
    jobs.end_first()
    assert last[1] == ["last"]
    assert all(not results for _, results in requests)


def test_a_job_that_fails_frees_its_place():
    jobs = HeldJobs()
    lane = HeavyWork(jobs, at_once=1)
    _, failed = started(lane.run(lambda: 1 // 0))
    _, result = started(lane.run(lambda: "fine"))
    jobs.end_first()
    jobs.end_first()
    assert isinstance(failed[0], ZeroDivisionError)
    assert result == ["fine"]
