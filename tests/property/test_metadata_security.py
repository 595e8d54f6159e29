"""Rules, users, quotas and tokens in the image: written, replayed, snapshotted and caught up with."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata import codec, records
from ottla.metadata.difference import differences
from ottla.metadata.image import Image

names = st.sampled_from(("alice", "bob", "t"))
numbers = st.integers(2, 4)
acl_fields = st.tuples(
    numbers, names, st.sampled_from((3, 4)), names, st.just("*"), numbers, st.sampled_from((2, 3))
)
entities = st.lists(
    st.builds(records.QuotaEntity, st.sampled_from(("user", "client-id")), st.none() | names),
    min_size=1,
    max_size=2,
).map(tuple)
steps = st.one_of(
    acl_fields.map(lambda fields: records.AclAdded(*fields)),
    acl_fields.map(lambda fields: records.AclRemoved(*fields)),
    st.builds(
        records.ScramSet, names, st.sampled_from((1, 2)), st.binary(), st.binary(), st.binary(), numbers
    ),
    st.builds(records.ScramRemoved, names, st.sampled_from((1, 2))),
    st.builds(
        records.QuotaSet, entities, st.sampled_from(("producer_byte_rate", "x")), st.none() | st.just("1.5")
    ),
    st.builds(records.TokenSet, names, names, names, st.just(("User:a",)), numbers, numbers, numbers),
    st.builds(records.TokenRemoved, names),
)


def an_image(applied):
    image = Image()
    for record in applied:
        image.apply(record)
    return image


@given(st.lists(steps, max_size=30))
def test_what_is_written_is_read_and_a_snapshot_rebuilds_it(applied):
    image = an_image(codec.decode(codec.encode(applied)))
    assert image.security == an_image(applied).security
    assert an_image(codec.decode(codec.encode(image.records()))) == image


@given(st.lists(steps, max_size=20), st.lists(steps, max_size=20))
def test_a_reader_that_fell_behind_hears_of_every_change(before, after):
    reader, target = an_image(before), an_image(after)
    heard = []
    reader.watch(heard.append)
    for record in list(differences(reader, target)):
        reader.apply(record)
    assert reader.security == target.security
    assert not [
        each for each in heard if isinstance(each, records.AclAdded) and each not in target.security.acls
    ]
