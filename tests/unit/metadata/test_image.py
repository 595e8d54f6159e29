import pytest

from ottla.metadata.image import Image
from ottla.metadata.records import FeatureSet, TopicCreated

from .cluster import topic
from .test_controller import alone


def test_a_watcher_that_fails_does_not_keep_an_entry_from_being_applied_and_others_from_hearing():
    image, heard = Image(), []

    def fail(record):
        raise RuntimeError("a bug")

    image.watch(fail)
    image.watch(heard.append)
    with pytest.raises(RuntimeError):
        image.apply_entry(4, [FeatureSet("f", 1), FeatureSet("g", 2)])
    assert (image.features, image.position) == ({"f": 1, "g": 2}, 5)
    assert heard == [FeatureSet("f", 1), FeatureSet("g", 2)]


def test_the_controller_goes_on_after_a_watcher_failed():
    node = alone()
    broken = [True]

    def fail_once(record):
        if isinstance(record, TopicCreated) and broken.pop():
            broken.append(False)
            raise RuntimeError("a bug")

    node.image.watch(fail_once)
    with pytest.raises(RuntimeError):
        node.create(topic())
    assert node.create(topic("u"))[0].error is None
    assert set(node.image.topics) == {"t", "u"}
