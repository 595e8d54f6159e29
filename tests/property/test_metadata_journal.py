"""The journal cut at any byte, with anything behind it: a prefix, and it goes on from there."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.journal import MAGIC, Journal
from ottla.metadata.records import FeatureSet
from ottla.storage.memory import MemoryDisk


class Reader:
    def __init__(self):
        self.values = []
        self.lease = (None, 0)

    def on_snapshot(self, position, records):
        self.values = [record.level for record in records]

    def on_entry(self, position, records):
        self.values += [record.level for record in records]

    def on_lease(self, holder, epoch):
        self.lease = (holder, epoch)

    def on_members(self, members): ...

    def on_session_lost(self): ...


def opened(disk):
    journal, reader = Journal(disk, "m"), Reader()
    journal.open(reader)
    journal.claim(1)
    return journal, reader


def write(journal, reader, value):
    failures = []
    journal.append(len(reader.values), reader.lease[1], [FeatureSet("f", value)], failures.append)
    return failures == [None]


@given(entries=st.integers(1, 6), cut=st.integers(0, 200), garbage=st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_a_journal_cut_anywhere_opens_as_a_prefix_and_goes_on(entries, cut, garbage):
    disk = MemoryDisk()
    journal, reader = opened(disk)
    for value in range(entries):
        assert write(journal, reader, value)
    cut = min(max(cut, len(MAGIC)), disk.size("m/metadata.log"))
    disk.tear("m/metadata.log", cut, garbage)
    journal, reader = opened(disk)
    assert reader.values == list(range(len(reader.values)))
    assert write(journal, reader, 99)
    assert opened(disk)[1].values == reader.values


@given(
    st.lists(st.sampled_from(["write", "snapshot", "crash", "kill", "fail"]), max_size=25),
    st.sampled_from(["append", "sync", "truncate", "write_whole"]),
    st.integers(0, 9),
)
@settings(max_examples=200, deadline=None)
def test_nothing_acknowledged_is_lost_and_nothing_refused_comes_back(actions, operation, partial):
    disk = MemoryDisk()
    journal, reader = opened(disk)
    acknowledged = []
    for number, action in enumerate(actions):
        match action:
            case "write":
                if write(journal, reader, number):
                    acknowledged.append(number)
            case "snapshot":
                records = [FeatureSet("f", value) for value in reader.values]
                journal.snapshot(len(reader.values), reader.lease[1], records, lambda failed: None)
            case "fail":
                disk.fail(operation, times=1, partial=partial)
            case _:
                disk.crash(lose_unsynced=action == "crash")
                journal, reader = opened(disk)
        assert reader.values == acknowledged
    disk.clear_faults()
    assert opened(disk)[1].values == acknowledged
