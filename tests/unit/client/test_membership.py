"""Which protocol a consumer speaks with its group."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import ottla
from ottla.client.core.dialogue import Dialogue
from ottla.client.core.group.classic import ClassicMember
from ottla.client.core.group.consumer_protocol import ConsumerMember, pattern_is_served, served_version
from ottla.testing import Broker
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey

HEARTBEAT = 68


def a_cluster(features: dict[str, int], heartbeat: tuple[int, int] | None) -> SimpleNamespace:
    dialogue = Dialogue("test")
    keys = [] if heartbeat is None else [(HEARTBEAT, *heartbeat)]
    dialogue.learn(
        ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=k, min_version=a, max_version=b) for k, a, b in keys],
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in features.items()
            ],
        )
    )

    async def any_connection() -> SimpleNamespace:
        return SimpleNamespace(dialogue=dialogue)

    return SimpleNamespace(any_connection=any_connection)


@pytest.mark.parametrize(
    ("features", "heartbeat", "version"),
    [
        ({"group.version": 1}, (0, 1), 1),
        ({"group.version": 1}, (0, 0), 0),
        ({"group.version": 0}, (0, 1), None),  # known but not switched on
        ({}, (0, 1), None),
        ({"group.version": 1}, None, None),  # an old broker
    ],
)
def test_the_new_protocol_is_spoken_where_the_cluster_serves_it(
    features: dict[str, int], heartbeat: tuple[int, int] | None, version: int | None
) -> None:
    found = asyncio.run(served_version(a_cluster(features, heartbeat)))  # type: ignore[arg-type]
    assert found == version
    assert found is None or pattern_is_served(found) == (version == 1)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1) as running:
        running.create_topic("t")
        yield running


@pytest.mark.parametrize(("wanted", "kind"), [(None, ConsumerMember), ("classic", ClassicMember)])
def test_the_new_protocol_is_the_default(broker: Broker, wanted: str | None, kind: type) -> None:
    settings = {} if wanted is None else {"group.protocol": wanted}
    with ottla.Consumer(settings, bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
        consumer.subscribe("t")
        assert isinstance(consumer._core._membership._member, kind)


def test_without_the_new_protocol_the_classic_one_is_spoken(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = Dialogue.learn

    def older(self: Dialogue, answer: ApiVersionsResponse) -> None:
        learn(self, answer)
        self.features.pop("group.version", None)

    monkeypatch.setattr(Dialogue, "learn", older)
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "x").result(60)
    settings = {"group.id": "old", "auto.offset.reset": "earliest"}
    with ottla.Consumer(settings, bootstrap_servers=broker.bootstrap) as consumer:
        consumer.subscribe("t")
        assert isinstance(consumer._core._membership._member, ClassicMember)
        while not (records := consumer.poll(1)):
            pass
        assert records[0].value == b"x"
    newer = ottla.Consumer(settings, bootstrap_servers=broker.bootstrap, group_protocol="consumer")
    with newer, pytest.raises(ottla.OttlaError, match=r"group\.protocol=classic"):
        newer.subscribe("t")
