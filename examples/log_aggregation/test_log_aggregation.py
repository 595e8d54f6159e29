from pathlib import Path

import pytest

from examples.log_aggregation.log_aggregation import TOPIC, index, search, ship
from ottla.testing import Broker


@pytest.fixture
def logs(tmp_path: Path, ottla_broker: Broker) -> Path:
    ottla_broker.create_topic(TOPIC, partitions=3)
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "checkout.log").write_text("started\npayment timeout for order 7\nhalf a li")
    (folder / "payment.log").write_text("started\ncard refused\n")
    return folder


def test_a_line_of_any_service_is_found(logs: Path, tmp_path: Path, ottla_broker: Broker) -> None:
    assert ship(logs, ottla_broker.bootstrap) == 4
    assert index(tmp_path / "index", ottla_broker.bootstrap) == 4
    assert search(tmp_path / "index", "timeout") == [("checkout", "payment timeout for order 7")]
    assert len(search(tmp_path / "index", "started")) == 2


def test_only_new_lines_are_sent_and_indexed(logs: Path, tmp_path: Path, ottla_broker: Broker) -> None:
    ship(logs, ottla_broker.bootstrap)
    index(tmp_path / "index", ottla_broker.bootstrap)
    with (logs / "checkout.log").open("a") as file:
        file.write("ne is whole now\n")
    assert ship(logs, ottla_broker.bootstrap) == 1
    assert index(tmp_path / "index", ottla_broker.bootstrap) == 1
    assert search(tmp_path / "index", '"half a line"') == [("checkout", "half a line is whole now")]


def test_a_rotated_file_starts_again(logs: Path, ottla_broker: Broker) -> None:
    ship(logs, ottla_broker.bootstrap)
    (logs / "payment.log").write_text("new\n")
    assert ship(logs, ottla_broker.bootstrap) == 1
