from ottla.broker.settings import Settings
from ottla.config.settings import Config
from ottla.metadata.image import BROKER_RESOURCE, Image
from ottla.metadata.records import ConfigSet


def test_a_broker_commits_under_the_minimum_of_all_brokers_whatever_its_own_is():
    """One of its own may come with an imported cluster; the controller keeps the ELR by that of all."""
    image = Image()
    settings = Settings(Config({"node.id": "1"}), image)
    image.apply(ConfigSet(BROKER_RESOURCE, "", "min.insync.replicas", "2"))
    image.apply(ConfigSet(BROKER_RESOURCE, "1", "min.insync.replicas", "1"))
    image.apply(ConfigSet(BROKER_RESOURCE, "1", "log.retention.ms", "7"))
    assert settings.now.log_defaults.min_insync_replicas == 2
    assert settings.now.log_defaults.retention_ms == 7
