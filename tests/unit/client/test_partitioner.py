import pytest

from ottla.client.core.cluster import Partition, Topic
from ottla.client.core.partitioner import Custom, Default, RoundRobin
from ottla.client.errors import SettingError


def topic(count: int, leaderless: tuple[int, ...] = ()) -> Topic:
    partitions = {i: Partition(i, -1 if i in leaderless else 1, 0, (1,), (1,)) for i in range(count)}
    return Topic("t", b"i" * 16, False, partitions)


# What Java's default partitioner answers for these keys, from its documented murmur2.
@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"", 275646681),
    ],
)
def test_keys_go_where_javas_client_sends_them(key: bytes, hash_: int) -> None:
    expected = (hash_ & 0x7FFFFFFF) % 7
    assert Default(100, choose=min).partition(topic(7), key, 10) == expected


def test_without_a_key_one_partition_is_filled_before_the_next() -> None:
    partitioner = Default(100, choose=min)
    chosen = [partitioner.partition(topic(3), None, 50) for _ in range(6)]
    assert chosen == [0, 0, 1, 1, 0, 0]


def test_partitions_without_a_leader_are_left_out_while_others_have_one() -> None:
    partitioner = Default(1, choose=min)
    assert {partitioner.partition(topic(3, leaderless=(0,)), None, 50) for _ in range(6)} == {1, 2}
    assert Default(1, choose=min).partition(topic(1, leaderless=(0,)), None, 50) == 0


def test_round_robin_takes_turns() -> None:
    partitioner = RoundRobin()
    assert [partitioner.partition(topic(3), b"k", 1) for _ in range(4)] == [0, 1, 2, 0]


def test_a_custom_choice_is_checked() -> None:
    assert Custom(lambda name, key, count: count - 1).partition(topic(3), None, 1) == 2
    with pytest.raises(SettingError, match="3 partitions"):
        Custom(lambda name, key, count: 9).partition(topic(3), None, 1)
