"""The history checker: a clean history passes, and each planted bug is called by its name."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.testing.histories import Kind, Op, Recorder, Report, check, load


class History:
    """A history by hand: every line is one tick of the clock."""

    def __init__(self, path) -> None:
        self._path = path
        self._now_ns = 0
        self.recorder = Recorder(path, self._tick)

    def _tick(self) -> int:
        self._now_ns += 1
        return self._now_ns

    def sent(self, value: str, offset: int, *, partition=0, process="p", transaction=None) -> None:
        send = self.recorder.send(process, "t", value, transaction=transaction)
        send.ok(partition, offset)

    def committed(self, transaction: str) -> None:
        self.recorder.commit("p", transaction).ok()

    def aborted(self, transaction: str) -> None:
        self.recorder.abort("p", transaction).ok()

    def polled(self, *records: tuple[int, str], partition=0, process="c", committed_only=True) -> None:
        read = [("t", partition, offset, value) for offset, value in records]
        self.recorder.poll(process, read, committed_only=committed_only)

    def ops(self) -> list[Op]:
        return load(self._path)

    def check(self, **options) -> Report:
        return check(self.ops(), **options)

    def kinds(self, **options) -> dict[Kind, int]:
        return dict(self.check(**options).kinds)


@pytest.fixture
def history(tmp_path) -> Iterator[History]:
    history = History(tmp_path / "history.jsonl")
    with history.recorder:
        yield history


def test_a_clean_history_has_no_anomalies(history):
    history.sent("a", 0)
    history.sent("b", 1, transaction="1")
    history.committed("1")
    history.sent("c", 3, transaction="2")
    history.aborted("2")
    history.sent("d", 5)
    history.recorder.send("p", "t", "e").unknown()
    history.recorder.send("p", "t", "f").fail()
    history.polled((0, "a"), (1, "b"))
    history.polled((5, "d"))
    report = history.check(drained=True)
    report.raise_if_any()
    assert (report.sends, report.reads) == (6, 3)


def test_a_history_without_reads_proves_nothing(history):
    history.sent("a", 0)
    with pytest.raises(AssertionError, match="1 records sent, 0 read"):
        history.check().raise_if_any()


def test_a_lost_write(history):
    for offset, value in enumerate("abc"):
        history.sent(value, offset)
    history.polled((0, "a"), (2, "c"))
    assert history.kinds() == {Kind.LOST_WRITE: 1}
    with pytest.raises(AssertionError, match=r"lost write: 1\n  'b' at t-0@1"):
        history.check().raise_if_any()


def test_a_lost_first_write_shows_when_the_position_is_known(history):
    history.sent("a", 0)
    history.sent("b", 1)
    history.recorder.assign("c", [("t", 0, 0)])
    history.polled((1, "b"))
    assert history.kinds() == {Kind.LOST_WRITE: 1}


def test_what_was_written_before_a_consumer_began_is_not_lost(history):
    history.sent("a", 0)
    history.sent("b", 1)
    history.polled((1, "b"))
    assert history.kinds() == {}
    assert history.kinds(drained=True) == {Kind.UNSEEN: 1}


def test_a_lost_write_of_a_committed_transaction_is_torn_too(history):
    history.sent("a", 0, transaction="1")
    history.sent("b", 1, transaction="1")
    history.committed("1")
    history.sent("c", 3)
    history.polled((0, "a"), (3, "c"))
    assert history.kinds() == {Kind.LOST_WRITE: 1, Kind.TORN_TRANSACTION: 1}


def test_a_torn_transaction_whose_commit_is_unknown(history):
    history.sent("a", 0, transaction="1")
    history.sent("x", 0, partition=1, transaction="1")
    history.recorder.commit("p", "1").unknown()
    history.sent("b", 2)
    history.sent("y", 2, partition=1)
    history.polled((0, "a"), (2, "b"))
    history.polled((2, "y"), partition=1)
    assert history.kinds() == {}  # nobody looked at t-1@0
    history.recorder.assign("d", [("t", 1, 0)])
    history.polled((2, "y"), partition=1, process="d")
    assert history.kinds() == {Kind.TORN_TRANSACTION: 1}


def test_a_duplicate(history):
    history.sent("a", 0)
    history.polled((0, "a"), (1, "a"))
    assert history.kinds() == {Kind.DUPLICATE: 1}


def test_a_duplicate_that_nobody_has_read_yet(history):
    history.sent("a", 0)
    history.sent("a", 1)
    assert history.kinds() == {Kind.DUPLICATE: 1}


def test_what_was_aborted_may_be_sent_again(history):
    history.sent("a", 0, transaction="1")
    history.aborted("1")
    history.sent("a", 2, transaction="2")
    history.committed("2")
    history.polled((2, "a"))
    assert history.kinds(drained=True) == {}


def test_an_aborted_read(history):
    history.sent("a", 0, transaction="1")
    history.aborted("1")
    history.polled((0, "a"))
    assert history.kinds() == {Kind.ABORTED_READ: 1}


def test_an_aborted_read_is_found_by_its_offset_when_the_value_was_sent_again(history):
    history.sent("a", 0, transaction="1")
    history.aborted("1")
    history.sent("a", 2, transaction="2")
    history.committed("2")
    history.polled((0, "a"))
    history.polled((2, "a"))
    assert history.kinds() == {Kind.ABORTED_READ: 1, Kind.DUPLICATE: 1}


def test_reading_what_was_refused_is_an_aborted_read(history):
    history.recorder.send("p", "t", "a").fail()
    history.polled((0, "a"))
    assert history.kinds() == {Kind.ABORTED_READ: 1}


def test_reading_a_transaction_that_nobody_committed_is_an_aborted_read(history):
    history.sent("a", 0, transaction="1")
    history.polled((0, "a"))
    assert history.kinds() == {Kind.ABORTED_READ: 1}


def test_a_refused_commit_aborts_unless_another_process_commits(history):
    history.sent("a", 0, transaction="1")
    history.recorder.commit("p", "1").fail()
    history.recorder.commit("q", "1").ok()
    history.polled((0, "a"))
    assert history.kinds() == {}


def test_read_uncommitted_consumers_may_see_anything_that_was_sent(history):
    history.sent("a", 0, transaction="1")
    history.polled((0, "a"), committed_only=False)
    history.aborted("1")
    assert history.kinds() == {}


def test_a_precommitted_read(history):
    history.sent("a", 0, transaction="1")
    history.polled((0, "a"))
    history.committed("1")
    assert history.kinds() == {Kind.PRECOMMITTED_READ: 1}


def test_a_read_while_the_commit_is_under_way_is_fine(history):
    history.sent("a", 0, transaction="1")
    commit = history.recorder.commit("p", "1")
    history.polled((0, "a"))
    commit.ok()
    assert history.kinds() == {}


def test_inconsistent_offsets_between_two_consumers(history):
    history.sent("a", 0)
    history.recorder.send("p", "t", "b").unknown()
    history.polled((0, "a"))
    history.polled((0, "b"), process="d")
    assert history.kinds() == {Kind.INCONSISTENT_OFFSETS: 1}


def test_inconsistent_offsets_between_two_acknowledgements(history):
    history.sent("a", 0)
    history.sent("b", 0, process="q")
    assert history.kinds() == {Kind.INCONSISTENT_OFFSETS: 1}


@pytest.mark.parametrize("second", [0, 1])
def test_a_consumer_that_goes_back_or_repeats(history, second):
    history.sent("a", 0)
    history.sent("b", 1)
    history.polled((0, "a"), (1, "b"))
    history.polled((second, "ab"[second]))
    assert history.kinds() == {Kind.NONMONOTONIC_POLL: 1}


def test_a_poll_that_goes_back_within(history):
    history.sent("a", 0)
    history.sent("b", 1)
    history.polled((1, "b"), (0, "a"))
    assert history.kinds() == {Kind.INTERNAL_NONMONOTONIC_POLL: 1}


@pytest.mark.parametrize("how", ["assign", "subscribe", "seek"])
def test_a_consumer_that_was_moved_may_go_back(history, how):
    history.sent("a", 0)
    history.polled((0, "a"))
    moves: dict[str, Callable[[], None]] = {
        "assign": lambda: history.recorder.assign("c", [("t", 0, 0)]),
        "subscribe": lambda: history.recorder.subscribe("c", ["t"]),
        "seek": lambda: history.recorder.seek("c", "t", 0, 0),
    }
    moves[how]()
    history.polled((0, "a"))
    assert history.kinds() == {}


def test_a_seek_of_one_partition_does_not_excuse_another(history):
    history.sent("a", 0)
    history.sent("x", 0, partition=1)
    history.polled((0, "a"))
    history.polled((0, "x"), partition=1)
    history.recorder.seek("c", "t", 0, 0)
    history.polled((0, "a"))
    history.polled((0, "x"), partition=1)
    assert history.kinds() == {Kind.NONMONOTONIC_POLL: 1}


def test_polls_that_skip_what_others_have_seen(history):
    for offset, value in enumerate("abcde"):
        history.sent(value, offset)
    history.polled(*enumerate("abcde"))
    history.polled((0, "a"), process="d")
    history.polled((2, "c"), (4, "e"), process="d")
    assert history.kinds() == {Kind.SKIPPED_POLL: 1, Kind.INTERNAL_SKIPPED_POLL: 1}


def test_a_consumer_that_begins_behind_its_position_has_skipped(history):
    for offset, value in enumerate("ab"):
        history.sent(value, offset)
    history.polled(*enumerate("ab"))
    history.recorder.assign("d", [("t", 0, 0)])
    history.polled((1, "b"), process="d")
    assert history.kinds() == {Kind.SKIPPED_POLL: 1}


def test_a_producer_whose_records_change_places(history):
    history.sent("a", 5)
    history.sent("b", 4)
    history.sent("c", 9, transaction="1")
    history.sent("d", 8, transaction="1")
    history.sent("e", 1, process="q")  # another producer
    history.sent("f", 1, partition=1)  # another partition
    assert history.kinds() == {Kind.NONMONOTONIC_SEND: 1, Kind.INTERNAL_NONMONOTONIC_SEND: 1}


def test_what_was_pipelined_counts_in_the_order_in_which_it_was_sent(history):
    first, second = history.recorder.send("p", "t", "a"), history.recorder.send("p", "t", "b")
    second.ok(0, 1)
    first.ok(0, 0)
    assert history.kinds() == {}


def test_a_value_that_nobody_sent(history):
    history.sent("a", 0)
    history.polled((0, "a"), (1, "ghost"))
    assert history.kinds() == {Kind.PHANTOM: 1}


def test_unseen_writes_count_when_all_was_to_be_read(history):
    history.sent("a", 0)
    history.sent("b", 1)
    history.recorder.send("p", "t", "c").ok()  # acknowledged without an offset
    history.polled((0, "a"))
    assert history.kinds() == {}
    assert history.kinds(drained=True) == {Kind.UNSEEN: 2}
    assert history.kinds(drained=True, ignore=[Kind.UNSEEN]) == {}


def test_bytes_and_numbers_are_values_too(history):
    history.recorder.send("p", "t", b"\xff\x00").ok(0, 0)
    history.recorder.send("p", "t", 17).ok(0, 1)
    history.recorder.poll("c", [("t", 0, 0, b"\xff\x00"), ("t", 0, 1, 17)])
    assert history.kinds(drained=True) == {}


# The recorder.


def test_what_a_killed_process_left_is_of_unknown_outcome(history, tmp_path):
    history.sent("a", 0)
    history.recorder.send("p", "t", "b", transaction="1")
    history.recorder.commit("p", "1")
    whole = (tmp_path / "history.jsonl").read_bytes()
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(whole + b'{"begin":9,"wh')
    assert [op.outcome.value for op in load(torn)] == ["ok", "unknown", "unknown"]


def test_a_process_that_is_started_again_may_go_on_with_its_file(tmp_path):
    path = tmp_path / "h"
    with Recorder(path) as one:
        one.send("p1", "t", "a").ok(0, 0)
    path.write_bytes(path.read_bytes() + b'{"begin":9,"wh')
    with Recorder(path) as two:
        two.send("p2", "t", "b").fail()
        two.poll("c", [("t", 0, 0, "a")])
    ops = load(path)
    assert [(op.process, op.outcome.value) for op in ops] == [("p1", "ok"), ("p2", "fail"), ("c", "ok")]
    check(ops, drained=True).raise_if_any()


def test_files_of_several_processes_are_one_history(tmp_path):
    with Recorder(tmp_path / "a") as one, Recorder(tmp_path / "b") as two:
        send = one.send("p", "t", "x")
        two.poll("c", [("t", 0, 0, "x")])
        send.ok(0, 0)
        two.poll("c", [])
    ops = load(tmp_path / "b", tmp_path / "a")
    assert [op.process for op in ops] == ["p", "c", "c"]
    check(ops, drained=True).raise_if_any()


def test_threads_may_share_a_recorder(tmp_path):
    path = tmp_path / "shared.jsonl"
    recorder = Recorder(path)

    def work(number: int) -> None:
        for i in range(200):
            recorder.send(f"p{number}", "t", f"{number}-{i}").ok(number, i)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    assert len([json.loads(line) for line in path.read_bytes().splitlines()]) == 1600
    ops = load(path)
    assert len(ops) == 800
    assert not check(ops).anomalies


# A simulated run, large and clean, and the same with bugs planted at random.


def simulated(path, seed: int, transactions: int, bug: str | None = None) -> list[Op]:
    """Producers with transactions over partitions that behave, consumers that read to the end."""
    dice = random.Random(seed)
    clock = iter(range(1, 10**9))
    recorder = Recorder(path, lambda: next(clock))
    logs: list[list[str | None]] = [[] for _ in range(4)]
    readers = [[0] * 4 for _ in range(3)]
    for each in readers:
        recorder.assign(f"c{readers.index(each)}", [("t", p, 0) for p in range(4)])

    def read(reader: int, most: int) -> None:
        for partition, log in enumerate(logs):
            at = readers[reader][partition]
            found = [("t", partition, o, v) for o, v in enumerate(log[at : at + most], at) if v is not None]
            recorder.poll(f"c{reader}", found)
            readers[reader][partition] = min(at + most, len(log))

    for number in range(transactions):
        producer, commits = f"p{number % 5}", dice.random() < 0.8
        written: list[tuple[int, int]] = []
        for i in range(dice.randint(1, 5)):
            value, partition = f"{number}-{i}", dice.randrange(4)
            send = recorder.send(producer, "t", value, transaction=str(number))
            written.append((partition, len(logs[partition])))
            logs[partition].append(value)
            send.ok(partition, len(logs[partition]) - 1)
        end = recorder.commit(producer, str(number)) if commits else recorder.abort(producer, str(number))
        hidden = written if not commits else []
        if bug == "abort exposed" and not commits and dice.random() < 0.05:
            hidden = []
        if bug == "torn" and commits and len(written) > 1 and dice.random() < 0.05:
            hidden = written[:1]
        for partition, offset in hidden:
            logs[partition][offset] = None
        for partition in {partition for partition, _ in written}:
            logs[partition].append(None)  # the marker
        if dice.random() < 0.9:
            end.ok()
        read(dice.randrange(3), dice.randint(1, 40))
    for reader in range(3):
        while any(at < len(log) for at, log in zip(readers[reader], logs, strict=True)):
            read(reader, 500)
    recorder.close()
    return load(path)


@pytest.mark.parametrize("seed", range(5))
def test_a_simulated_history_is_clean(tmp_path, seed):
    check(simulated(tmp_path / "h", seed, 500), drained=True).raise_if_any()


@pytest.mark.parametrize(
    ("bug", "kind"), [("abort exposed", Kind.ABORTED_READ), ("torn", Kind.TORN_TRANSACTION)]
)
def test_bugs_planted_in_a_simulated_history_are_found(tmp_path, bug, kind):
    kinds = check(simulated(tmp_path / "h", 1, 500, bug), drained=True).kinds
    assert kinds[kind] > 0
    assert set(kinds) <= {kind, Kind.LOST_WRITE}


@pytest.mark.slow
def test_a_hundred_thousand_operations_are_checked_in_seconds(tmp_path):
    ops = simulated(tmp_path / "h", 7, 15_000)
    assert len(ops) > 100_000
    before_s = time.process_time()
    check(ops, drained=True).raise_if_any()
    assert time.process_time() - before_s < 20
