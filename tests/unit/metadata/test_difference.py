from ottla.metadata.difference import differences
from ottla.metadata.image import Image
from ottla.metadata.records import ConfigSet, PartitionCreated, TopicCreated, TopicDeleted


def image(*records):
    made = Image()
    for record in records:
        made.apply(record)
    return made


def test_a_topic_made_anew_under_its_old_name_gets_its_settings_anew():
    settings = ConfigSet(2, "t", "retention.ms", "1")
    before = image(TopicCreated("t", b"1"), PartitionCreated(b"1", 0, (1,), (1,), 1), settings)
    after = image(TopicCreated("t", b"2"), PartitionCreated(b"2", 0, (1,), (1,), 1), settings)
    steps = list(differences(before, after))
    assert steps.index(TopicDeleted(b"1")) < steps.index(TopicCreated("t", b"2")) < steps.index(settings)
    for record in steps:
        before.apply(record)
    assert before == after


def test_between_equal_images_nothing_happens_to_topics_and_brokers():
    one = image(TopicCreated("t", b"1"), PartitionCreated(b"1", 0, (1,), (1,), 1))
    kinds = {type(record).__name__ for record in differences(one, one)}
    assert kinds == {"ControllerChanged", "ProducerIdsAllocated"}
