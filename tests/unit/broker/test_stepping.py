"""Work of a connection in steps, and heavy work in threads."""

from functools import partial

from ottla.broker.stepping import EARNED_PER_MS, STEP_BYTES, HeavyWork, Turns, Work
from ottla.broker.waits import Running
from ottla.testing.world.time import ProcessClock, Time


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


def used_up(time):
    work = Work()
    work.earn(time.now_ms())
    work.spend(STEP_BYTES)
    return work


def turns_of(time):
    return Turns(ProcessClock(time))


def test_a_connection_rests_after_a_step_however_many_requests_that_was():
    work, rests = Work(), 0
    work.earn(1000)
    for _ in range(100):
        if work.spend(STEP_BYTES // 10):
            rests += 1
            work.on_turn()
    assert rests == 9  # a step and a little, each


def test_a_connection_that_does_little_at_a_time_never_rests():
    work = Work()
    for now_ms in range(1000, 2000):
        work.earn(now_ms)
        assert not work.spend(EARNED_PER_MS - 1)


def test_what_is_earned_in_a_long_time_is_one_step():
    work = Work()
    work.earn(1_000_000)
    assert not work.spend(STEP_BYTES - 1)
    assert work.spend(1)


def test_who_rests_goes_on_at_the_next_turn():
    time = Time()
    _, results = started(turns_of(time).rest(used_up(time)))
    assert results == []
    assert time.next_event()
    assert results == [None]


def test_one_of_many_that_rest_goes_on_in_each_turn_and_another_broker_comes_first():
    time = Time()
    turns = turns_of(time)
    first, second = (started(turns.rest(used_up(time)))[1] for _ in range(2))
    _, peer = started(turns.rest(used_up(time), first=True))
    gone_on = []
    while time.next_event():
        gone_on.append([len(results) for results in (first, second, peer)])
    assert gone_on == [[0, 0, 1], [1, 0, 1], [1, 1, 1]]


def test_a_request_that_is_cancelled_while_it_rests_takes_no_turn():
    time = Time()
    turns = turns_of(time)
    running, results = started(turns.rest(used_up(time)))
    _, next_results = started(turns.rest(used_up(time)))
    running.cancel()
    assert time.next_event()
    assert (results, next_results) == ([], [None])
    assert not time.next_event()


def test_heavy_work_runs_a_few_at_a_time_in_order():
    jobs = HeldJobs()
    lane = HeavyWork(jobs, at_once=2)
    requests = [started(lane.run(partial(int, number))) for number in range(5)]
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
            await lane.run(partial(order.append, f"greedy {number}"))

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
