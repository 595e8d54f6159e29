import pytest

from ottla.storage import checkpoints
from ottla.storage.checkpoints import DamagedFile, Meta
from ottla.storage.memory import MemoryDisk

NAME = checkpoints.RECOVERY_POINTS


def a_disk(text: bytes, name: str = NAME) -> MemoryDisk:
    disk = MemoryDisk()
    disk.write_whole(name, text)
    return disk


def test_an_offset_checkpoint_is_written_as_kafka_writes_it():
    disk = MemoryDisk()
    checkpoints.write_offsets(disk, NAME, {("orders", 1): 7, ("a", 0): 0})
    assert disk.read_whole(NAME) == b"0\n2\na 0 0\norders 1 7\n"


def test_offsets_written_are_read_back():
    disk = MemoryDisk()
    offsets = {("a.b_c-d", 12): 2**62, ("x", 0): 0}
    checkpoints.write_offsets(disk, NAME, offsets)
    assert checkpoints.read_offsets(disk, NAME) == offsets


def test_a_checkpoint_never_written_is_empty():
    assert checkpoints.read_offsets(MemoryDisk(), NAME) == {}
    assert checkpoints.read_offsets(a_disk(b""), NAME) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"0\n1\na 0 5", "cut off"),
        (b"1\n0\n", "version 1 is unknown"),
        (b"zero\n0\n", "no version"),
        (b"0\n", "no number of entries"),
        (b"0\n2\na 0 5\n", "2 entries announced, 1 found"),
        (b"0\n1\na 0 5\nb 0 5\n", "1 entries announced, 2 found"),
        (b"0\n1\na 0\n", "line 3"),
        (b"0\n1\na 0 5 6\n", "line 3"),
        (b"0\n1\na 0 five\n", "line 3"),
        (b"0\n1\na -1 5\n", "negative"),
        (b"0\n2\na 0 5\na 0 6\n", "there twice"),
        (b"0\n1\n\xff\xfe 0 5\n", "not a text file"),
        (b"0\n1\n" + b"\0" * 40 + b"\n", "line 3"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_never_guessed_at(text: bytes, reason: str):
    with pytest.raises(DamagedFile, match=reason) as raised:
        checkpoints.read_offsets(a_disk(text), NAME)
    assert raised.value.path == NAME


def test_meta_properties_are_read_back():
    disk = MemoryDisk()
    meta = Meta("cluster-1", 3, bytes(range(16)))
    checkpoints.write_meta(disk, meta)
    assert checkpoints.read_meta(disk) == meta


def test_meta_properties_of_apache_kafka_are_read():
    text = b"#\n#Mon Nov 16 02:00:00 UTC 2026\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\nversion=1\n"
    text += b"cluster.id=abc\\=\n"
    meta = checkpoints.read_meta(a_disk(text, checkpoints.META_PROPERTIES))
    assert meta == Meta("abc=", 1, bytes(range(16)))


@pytest.mark.parametrize(
    "text",
    [
        b"version=0\ncluster.id=a\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n",
        b"version=1\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n",
        b"version=1\ncluster.id=a\nnode.id=one\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n",
        b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAEC\n",
        b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=???\n",
        b"version=1\nversion=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n",
        b"version=1\ncluster.id",
    ],
)
def test_damaged_meta_properties_are_refused(text: bytes):
    with pytest.raises(DamagedFile):
        checkpoints.read_meta(a_disk(text, checkpoints.META_PROPERTIES))


def test_no_meta_properties_is_a_new_folder():
    assert checkpoints.read_meta(MemoryDisk()) is None


def test_the_clean_mark_counts_once():
    disk = MemoryDisk()
    assert not checkpoints.take_clean_mark(disk)
    checkpoints.write_clean_mark(disk, broker_epoch=9)
    assert disk.read_whole(checkpoints.CLEAN_MARK) == b'{"version":0,"brokerEpoch":9}'
    assert checkpoints.take_clean_mark(disk)
    disk.crash()
    assert not checkpoints.take_clean_mark(disk)
