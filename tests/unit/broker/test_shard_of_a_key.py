"""Which partition of an internal topic has a group or a transactional id."""

import pytest

from ottla.broker.coordinators.shards import java_hash, partition_of


@pytest.mark.parametrize(
    ("key", "partitions", "index"),
    [
        ("classic-group", 7, 5),  # a negative hash; the numbers are where Apache Kafka 4.3.1 put them
        ("consumer-group", 7, 6),
        ("polygenelubricants", 50, 0),  # the smallest integer: it has no absolute value
        ("a", 50, 97 % 50),
    ],
)
def test_a_key_is_in_the_partition_where_apache_kafka_looks_for_it(key, partitions, index):
    assert partition_of(key, partitions) == index


def test_the_hash_is_that_of_java():
    assert java_hash("polygenelubricants") == 1 << 31
    assert java_hash("") == 0
