"""The quotas of clients follow the metadata."""

import pytest

from ottla.broker.requests.quotas import ClientQuotas
from ottla.broker.settings import Settings
from ottla.config.settings import Config
from ottla.metadata.image import Image
from ottla.metadata.records import QuotaEntity, QuotaSet
from ottla.security.quotas import PRODUCE, Quotas


def quota_of(name, value):
    return QuotaSet((QuotaEntity("user", name),), PRODUCE, value)


@pytest.fixture
def image():
    return Image()


@pytest.fixture
def quotas(image):
    return ClientQuotas(image, Settings(Config({}), image))


def burst(quotas, name):
    return quotas.now.burst(PRODUCE, f"User:{name}", "")


def test_counting_begins_with_the_first_quota_and_ends_with_the_last(image, quotas):
    assert quotas.now is None
    image.apply(quota_of("ann", "1000.0"))
    assert burst(quotas, "ann") == 10_000 and burst(quotas, "bob") is None
    image.apply(quota_of("bob", "5.0"))
    image.apply(quota_of("ann", "1.0"))
    assert (burst(quotas, "ann"), burst(quotas, "bob")) == (10, 50)
    image.apply(quota_of("ann", None))
    image.apply(quota_of("bob", None))
    assert quotas.now is None


def test_very_many_changes_at_once_are_looked_at_once(image, quotas, monkeypatch):
    """A snapshot of 20,000 quotas would else take longer than a session of its broker."""
    looks = []
    on_changed = Quotas.on_changed
    monkeypatch.setattr(Quotas, "on_changed", lambda self: looks.append(1) or on_changed(self))
    image.apply_entry(0, [quota_of(str(number), "1000.0") for number in range(1000)])
    assert burst(quotas, "999") == 10_000
    image.apply_entry(1, [quota_of(str(number), "2000.0") for number in range(1000)])
    assert burst(quotas, "999") == 20_000
    assert len(looks) == 2
