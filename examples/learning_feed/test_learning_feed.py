import json
import random
from pathlib import Path
from typing import Any

import pytest

import ottla
from examples.learning_feed.learning_feed import PREDICTIONS, READINGS, reading, score, train
from ottla.testing import Broker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]  # PySpark leaves sockets to the collector


@pytest.fixture
def broker(ottla_broker: Broker) -> Broker:
    """Machines that run hot and shake fail; the last two batches are of today."""
    ottla_broker.create_topic(READINGS, partitions=2)
    ottla_broker.create_topic(PREDICTIONS, partitions=1)
    chance = random.Random(1)
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap) as producer:
        for batch in range(40):
            bad = batch % 2 == 0
            for _ in range(5):
                heat, shake = (90, 5.0) if bad else (60, 1.0)
                machine = f"machine-{batch % 4}"
                known = None if batch >= 38 else bad
                reading(producer, machine, batch, chance.gauss(heat, 3), chance.gauss(shake, 0.5), known)
    return ottla_broker


def test_a_model_of_the_past_tells_the_risk_of_today(spark: Any, broker: Broker, tmp_path: Path) -> None:
    model, checkpoint = tmp_path / "model.json", str(tmp_path / "checkpoint")
    assert train(spark, broker.bootstrap, model) > 0.9
    assert score(spark, broker.bootstrap, model, checkpoint).awaitTermination(120)
    values = [record.value for record in broker.records(PREDICTIONS, value=json.loads)]
    predictions = {value["batch"]: value["risk"] for value in values}
    assert set(predictions) == {38, 39}
    assert predictions[38] > 0.5 > predictions[39]
