"""A broker with a schema registry, for each test."""

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from ottla.serialization import RegistryClient
from ottla.testing import Broker


@pytest.fixture
def broker():
    with Broker(registry=True) as broker:
        yield broker


@pytest.fixture
def client(broker):
    """Ours."""
    return RegistryClient(broker.registry)


@pytest.fixture
def confluent(broker):
    """Confluent's, unmodified."""
    return SchemaRegistryClient({"url": broker.registry})
