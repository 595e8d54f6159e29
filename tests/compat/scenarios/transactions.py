"""Transactions by raw requests: both generations, every version, rightly and wrongly."""

from __future__ import annotations

from typing import Any

from tests.compat.answers import Session
from tests.compat.batches import batch
from tests.compat.raw import ask_until
from tests.compat.scenarios.groups import _coordinator

_TRANSACTIONAL = 0x10
_OPEN = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 25, "session_epoch": -1}


def the_life_of_a_producer(s: Session) -> None:
    for version in s.versions("init_producer_id"):
        producer = s.name(f"life-{version}")
        s.coordinator(producer, kind=1)
        first = _init(s, producer, version)
        s.note(f"v{version} first", first)
        s.note(f"v{version} second", _init(s, producer, version))
        for note, timeout in {"zero": 0, "negative": -1, "too long": 2_000_000_000}.items():
            body = {
                "transactional_id": producer,
                "transaction_timeout": timeout,
                "producer_id": -1,
                "producer_epoch": -1,
            }
            s.call("init_producer_id", version, body, f"timeout {note}")
        if version >= 3:
            again = _init(s, producer, version, producer_id=first["producer_id"], producer_epoch=0)
            s.note(f"v{version} with an old epoch", again)
            strange = _init(s, producer, version, producer_id=first["producer_id"] + 9000, producer_epoch=0)
            s.note(f"v{version} with another id", strange)


def a_transaction_of_the_first_generation(s: Session) -> None:
    """As the Python and C clients speak: partitions are announced, Produce stays below 12."""
    name = s.topic("v1", partitions=2)
    for committed in (True, False):
        producer = s.name(f"v1-{committed}")
        s.coordinator(producer, kind=1)
        made = _init(s, producer, 0)
        records = _records(made, 0, [b"a", b"b"])
        s.call("produce", 9, _produce(name, records, producer), f"not announced, {committed}")
        add = {"transactional_id": producer, **_who(made), "topics": [{"name": name, "partitions": [0, 1]}]}
        s.call("add_partitions_to_txn", 0, _v3(add), f"{committed}")
        s.call("produce", 9, _produce(name, records, producer), f"announced, {committed}")
        s.call("fetch", 11, _fetch(name, 0), f"open, committed only, {committed}")
        s.call("fetch", 11, _fetch(name, 0, isolation=0), f"open, everything, {committed}")
        s.call("list_offsets", 4, _end(name, isolation=1), f"open, {committed}")
        for version in s.versions("describe_transactions"):
            answer = s.ask("describe_transactions", {"transactional_ids": [producer]}, version)
            answer["transaction_states"][0]["transaction_start_time_ms"] = "<time>"
            s.note(f"described v{version} {committed}", answer)
        end = {"transactional_id": producer, **_who(made), "committed": committed}
        s.call("end_txn", 1, end, f"{committed}")
        _completed(s, producer)
        s.call("end_txn", 1, end, f"{committed} again")
        s.call("end_txn", 1, {**end, "committed": not committed}, f"{committed}, then the other")
        _settled(s, name)
        s.call("fetch", 11, _fetch(name, 0), f"ended, {committed}")


def a_transaction_of_the_second_generation(s: Session) -> None:
    """As Java speaks since 4.0: Produce 12 announces by itself, EndTxn 5 raises the epoch."""
    name = s.topic("v2")
    topic_id = s.topic_id(name)
    for version in s.versions("produce", 12):
        for committed in (True, False):
            producer = s.name(f"v2-{version}-{committed}")
            s.coordinator(producer, kind=1)
            made = _init(s, producer, s.latest("init_producer_id"))
            body = _produce(name, _records(made, 0, [b"x"]), producer, topic_id)
            s.call("produce", version, body, f"{committed}")
            end = {"transactional_id": producer, **_who(made), "committed": committed}
            ended = s.call("end_txn", 5, end, f"by produce {version}, {committed}")
            _completed(s, producer)
            s.call("end_txn", 5, end, f"again, by produce {version}, {committed}")
            nothing = {"transactional_id": producer, "producer_id": ended["producer_id"],
                       "producer_epoch": ended["producer_epoch"], "committed": False}  # fmt: skip
            s.call("end_txn", 5, nothing, f"empty, by produce {version}, {committed}")
            s.call("produce", version, body, f"old epoch, {committed}")
    _settled(s, name)
    s.call("list_offsets", s.latest("list_offsets"), _end(name, isolation=1), "in the end")


def transactions_wrongly(s: Session) -> None:
    name = s.topic("wrong-txn")
    producer = s.name("wrong-txn")
    s.coordinator(producer, kind=1)
    made = _init(s, producer, 0)
    for version in s.versions("add_partitions_to_txn"):
        if version > 3:
            continue  # between brokers only
        for note, fields in {
            "unknown topic": {"topics": [{"name": "no-such-topic", "partitions": [0]}]},
            "unknown partition": {"topics": [{"name": name, "partitions": [0, 9]}]},
            "unknown producer": {"transactional_id": "nobody"},
            "wrong id": {"producer_id": made["producer_id"] + 777},
            "old epoch": {"producer_epoch": made["producer_epoch"] - 1},
            "future epoch": {"producer_epoch": made["producer_epoch"] + 1},
            "empty name": {"transactional_id": ""},
        }.items():
            good = {"transactional_id": producer, **_who(made), "topics": [{"name": name, "partitions": [0]}]}
            s.call("add_partitions_to_txn", version, _v3({**good, **fields}), note)  # type: ignore[dict-item]
    for version in s.versions("end_txn"):
        for note, fields in {
            "nothing to end": {},
            "unknown": {"transactional_id": "nobody"},
            "wrong epoch": {"producer_epoch": 99},
        }.items():
            if version >= 5 and note == "nothing to end":
                continue  # this would raise the epoch
            good = {"transactional_id": producer, **_who(made), "committed": True}
            s.call("end_txn", version, {**good, **fields}, note)  # type: ignore[dict-item]


def offsets_in_transactions(s: Session) -> None:
    name = s.topic("txn-offsets")
    for version in s.versions("txn_offset_commit"):
        if version >= 5:
            continue
        producer, group = s.name(f"offsets-{version}"), s.name(f"group-{version}")
        s.coordinator(producer, kind=1)
        _coordinator(s, group)
        made = _init(s, producer, 0)
        who = {"transactional_id": producer, **_who(made), "group_id": group}
        s.call("add_offsets_to_txn", min(version, s.latest("add_offsets_to_txn")), who, f"for {version}")
        row = {
            "partition_index": 0,
            "committed_offset": 7,
            "committed_leader_epoch": -1,
            "committed_metadata": "m",
        }
        body = {**who, "generation_id": -1, "member_id": "", "topics": [{"name": name, "partitions": [row]}]}
        s.call("txn_offset_commit", version, body)
        if version >= 3:
            s.call(
                "txn_offset_commit",
                version,
                {**body, "member_id": "nobody", "generation_id": 3},
                "unknown member",
            )
        s.call("txn_offset_commit", version, {**body, "producer_epoch": 99}, "wrong epoch")
        s.call("txn_offset_commit", version, {**body, "group_id": ""}, "empty group")
        topics = [{"name": name, "partition_indexes": [0]}]
        for stable in (False, True):
            asked = {"group_id": group, "topics": topics, "require_stable": stable}
            s.call("offset_fetch", 7, asked, f"pending, stable {stable}, {version}")
        s.call("end_txn", 1, {"transactional_id": producer, **_who(made), "committed": True}, f"{version}")
        asked = {"group_id": group, "topics": topics, "require_stable": True}
        answer = ask_until(
            lambda: s.ask("offset_fetch", asked, 7),  # noqa: B023  called in the same turn
            lambda answer: answer["topics"][0]["partitions"][0]["committed_offset"] == 7,
            "the offset is committed",
        )
        s.note(f"committed {version}", answer)


def zombies_are_fenced(s: Session) -> None:
    name = s.topic("zombie")
    producer = s.name("zombie")
    s.coordinator(producer, kind=1)
    old = _init(s, producer, 4)
    add = {"transactional_id": producer, "topics": [{"name": name, "partitions": [0]}]}
    s.call("add_partitions_to_txn", 3, _v3({**add, **_who(old)}), "by the old one")
    s.call("produce", 9, _produce(name, _records(old, 0, [b"old"]), producer), "by the old one")
    new = _init(s, producer, 4)
    s.note("epoch grew", new["producer_epoch"] > old["producer_epoch"])
    s.call("produce", 9, _produce(name, _records(old, 1, [b"late"]), producer), "by the zombie")
    for version in (1, 3, 4):
        s.call(
            "end_txn",
            version,
            {"transactional_id": producer, **_who(old), "committed": True},
            "by the zombie",
        )
    for version in (0, 3):
        s.call("add_partitions_to_txn", version, _v3({**add, **_who(old)}), f"by the zombie {version}")
    _settled(s, name)
    s.call("fetch", 11, _fetch(name, 0), "what is left")


def _v3(body: dict[str, Any]) -> dict[str, Any]:
    """The request in the names of versions 0 to 3, which the schemas mark as such."""
    named = {f"v3_and_below_{key}": value for key, value in body.items()}
    return {**named, "transactions": []}


def _init(s: Session, name: str, version: int, **fields: Any) -> Any:
    body = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    not_yet = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
    return ask_until(
        lambda: s.ask("init_producer_id", {**body, **fields}, version),
        lambda answer: answer["error_code"] not in not_yet,
        "no abort and no load is on its way",
    )


def _who(made: Any) -> dict[str, Any]:
    return {"producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}


def _records(made: Any, sequence: int, values: list[bytes]) -> bytes:
    return batch(values, attributes=_TRANSACTIONAL, base_sequence=sequence, **_who(made))


def _produce(name: str, records: bytes, producer: str, topic_id: str | None = None) -> dict[str, Any]:
    data = [{"name": name, "topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}]
    return {"transactional_id": producer, "acks": -1, "timeout": 10_000, "topic_data": data}


def _fetch(name: str, offset: int, isolation: int = 1) -> dict[str, Any]:
    rows = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
    return {**_OPEN, "isolation_level": isolation, "topics": [{"topic": name, "partitions": rows}]}


def _end(name: str, isolation: int) -> dict[str, Any]:
    rows = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    return {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": name, "partitions": rows}],
        "timeout": 1000,
    }


def _completed(s: Session, producer: str) -> None:
    """The coordinator writes down the end behind all markers."""
    ask_until(
        lambda: s.ask("describe_transactions", {"transactional_ids": [producer]}),
        lambda answer: answer["transaction_states"][0]["transaction_state"].startswith("Complete"),
        "the transaction is completed",
    )


def _settled(s: Session, name: str) -> None:
    """Markers are written behind the answer: wait until nothing is open any more."""

    def ends() -> list[int]:
        answers = [s.ask("list_offsets", _end(name, each), 4) for each in (0, 1)]
        return [each["topics"][0]["partitions"][0]["offset"] for each in answers]

    ask_until(ends, lambda found: found[0] == found[1], "no transaction is open")
