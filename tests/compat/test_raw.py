"""Every advertised version of every API, answered by both servers and compared field by field."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from tests.compat import answers, raw
from tests.compat.scenarios import cluster, configs, connection, fetch, produce, telemetry, topics
from tests.conftest import Target

MODULES = (connection, topics, produce, fetch, configs, telemetry, cluster)
# What Apache Kafka 4.3 has for clients and Ottla does not serve, as the design says.
NOT_SERVED = {
    "sasl_handshake", "sasl_authenticate",
    "alter_user_scram_credentials", "update_features", "unregister_broker",
    "add_raft_voter", "remove_raft_voter", "create_acls", "delete_acls", "describe_quorum",
    "describe_user_scram_credentials",
    "share_group_heartbeat", "share_group_describe", "share_fetch", "share_acknowledge",
    "initialize_share_group_state", "read_share_group_state", "write_share_group_state",
    "delete_share_group_state", "read_share_group_state_summary", "describe_share_group_offsets",
    "alter_share_group_offsets", "delete_share_group_offsets",
}  # fmt: skip


def scenarios_of(*modules: ModuleType) -> list[answers.Scenario]:
    return [
        each
        for module in modules
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if each.__module__ == module.__name__ and not name.startswith("_")
    ]


def compare_scenario(scenario: answers.Scenario, both: dict[str, Target]) -> None:
    """Run it on each server; where there are two, their answers must agree."""
    common = _common_versions(both)
    recorded = answers.record(scenario, {name: server.bootstrap for name, server in both.items()}, common)
    if len(recorded) == 2:
        unequal = answers.compare(scenario.__name__, recorded["kafka"], recorded["ottla"])
        assert not unequal, f"{len(unequal)} differences\n" + "\n".join(sorted(unequal)[:60])


@pytest.mark.parametrize("scenario", scenarios_of(*MODULES), ids=lambda each: each.__name__)
def test_both_answer_alike(scenario: answers.Scenario, both: dict[str, Target]) -> None:
    compare_scenario(scenario, both)


def test_what_is_advertised_is_what_kafka_advertises(both: dict[str, Target]) -> None:
    if len(both) < 2:
        pytest.skip("needs both servers")
    kafka, ottla = (raw.versions(both[name].bootstrap) for name in ("kafka", "ottla"))
    missing = {api: each for api, each in kafka.items() if api not in NOT_SERVED and ottla.get(api) != each}
    assert not missing, f"Ottla serves { ({api: ottla.get(api) for api in missing}) }"
    assert not ottla.keys() - kafka.keys()


def _common_versions(both: dict[str, Target]) -> dict[str, list[int]]:
    advertised = [raw.versions(server.bootstrap) for server in both.values()]
    apis = set.intersection(*(set(each) for each in advertised))
    return {
        api: [
            v
            for v in raw.served(next(iter(both.values())).bootstrap, api)
            if all(v in each[api] for each in advertised)
        ]
        for api in sorted(apis)
    }
