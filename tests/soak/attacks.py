"""What hostile and broken clients send: bytes that mean nothing, and requests that are right but want too much."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.compat import raw
from tests.compat.batches import batch
from tests.soak.attack_batches import (
    BOMBS,
    DUPLICATES,
    REPEATS,
    VICTIM,
    a_bomb,
    a_fetch,
    a_produce,
    a_session,
    bombs,
    from_the_future,
)
from tests.soak.attack_bodies import a_share_fetch, a_topology, acknowledgements, some_states

LARGE = "large"  # a topic with more records than a client takes at once
SHARED_PARTITIONS = 1_000
FRAME_BYTES_MAX = 104_857_600
FOREVER_MS = 2**31 - 1
LINGERING_MAX = 100
SLOW_READERS = 5
ASKS_AGAIN_S = 30.0


def kind_of(attack: Callable[[], None]) -> str:
    return attack.__name__.strip("_").replace("_", "-")


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


class SlowReader:
    """Asks for much and takes a little of it, now and then; it must never be cut off."""

    def __init__(self, connection: socket.socket, request: bytes) -> None:
        self._connection, self._request = connection, request
        self._connection.sendall(request * 20)
        self._connection.setblocking(False)
        self._read_at = time.monotonic()

    def read_some(self) -> bool:
        """Whether it is still connected."""
        try:
            received = self._connection.recv(100_000)
            self._read_at = time.monotonic()
            return received != b""
        except BlockingIOError:
            pass
        except OSError:
            return False
        if time.monotonic() - self._read_at > ASKS_AGAIN_S:
            self._ask_again()
        return True

    def _ask_again(self) -> None:
        """It has read everything: in ten minutes it would be an idle connection, which may be closed."""
        self._read_at = time.monotonic()
        with contextlib.suppress(OSError):
            self._connection.send(self._request)

    def close(self) -> None:
        self._connection.close()


class Attacker:
    """One random bad thing after another, each on a connection of its own."""

    def __init__(self, bootstrap: str, chance: random.Random, only: str = "") -> None:
        """`only` is the name of one kind of attack."""
        self._bootstrap, self._chance = bootstrap, chance
        self._apis = [
            (api, version) for api in raw.versions(bootstrap) for version in raw.served(bootstrap, api)
        ]
        self._lingering: list[socket.socket] = []
        self._readers: list[SlowReader] = []
        self._frames: dict[str, bytes] = {}
        self._victim_id: uuid.UUID | None = None
        self.cut_off = 0  # slow readers that the broker left
        self._attacks: list[tuple[int, Callable[[], None]]] = [
            (10, self._noise),
            (10, self._half_a_frame),
            (10, self._absurd_length),
            (30, self._damaged_request),
            (10, self._empty_request),
            (10, self._damaged_records),
            (10, self._never_reads),
            (10, self._lingers),
            (10, self._duplicates),
            (2, self._bombs),
            (5, self._very_many_refusals),
            (5, self._searches_by_time),
            (5, self._costly_pattern),
            (10, self._parked_long_poll),
            (10, self._announces_and_is_silent),
            (3, self._half_a_large_frame),
            (5, self._reads_slowly),
            (5, self._opens_sessions),
            (5, self._shares_much),
            (5, self._parked_share_fetch),
            (5, self._large_topology),
            (5, self._many_states),
            (5, self._many_instances),
        ]
        if only:
            self._attacks = [(1, attack) for _, attack in self._attacks if kind_of(attack) == only]

    @property
    def kinds(self) -> list[str]:
        return [kind_of(attack) for _, attack in self._attacks]

    def attack(self) -> None:
        weights, attacks = zip(*self._attacks, strict=True)
        with contextlib.suppress(OSError, raw.Closed):
            self._chance.choices(attacks, weights)[0]()
        while len(self._lingering) > LINGERING_MAX:
            self._lingering.pop(self._chance.randrange(len(self._lingering))).close()
        for reader in [each for each in self._readers if not each.read_some()]:
            self._readers.remove(reader)
            self.cut_off += 1

    def close(self) -> None:
        for each in (*self._lingering, *self._readers):
            each.close()  # type: ignore[attr-defined]

    # -- bytes that mean nothing ------------------------------------------------------------------

    def _noise(self) -> None:
        self._say(self._chance.randbytes(self._chance.randrange(1, 5000)))

    def _half_a_frame(self) -> None:
        data = framed(self._request())
        self._say(data[: self._chance.randrange(len(data))])

    def _absurd_length(self) -> None:
        size = self._chance.choice((-1, -(2**31), 2**31 - 1, FRAME_BYTES_MAX + 1, 0, 1, 7))
        self._say(struct.pack(">i", size) + self._request())

    def _damaged_request(self) -> None:
        frame = bytearray(self._request())
        for _ in range(self._chance.randrange(1, 6)):
            at = self._chance.randrange(len(frame))
            match self._chance.randrange(4):
                case 0:
                    frame[at] = self._chance.randrange(256)
                case 1:
                    frame[at : at + 4] = self._chance.choice(
                        (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0")
                    )
                case 2:
                    del frame[at : at + self._chance.randrange(1, 9)]
                case _:
                    frame[at:at] = self._chance.randbytes(self._chance.randrange(1, 9))
            if not frame:
                break
        self._say(framed(bytes(frame)))

    def _empty_request(self) -> None:
        api, version = self._chance.choice(self._apis)
        self._say(framed(struct.pack(">hhih", raw.KEYS[api], version, 1, -1)))

    def _damaged_records(self) -> None:
        records = bytearray(batch([b"v" * self._chance.randrange(1, 300)] * self._chance.randrange(1, 20)))
        for _ in range(self._chance.randrange(1, 4)):
            records[self._chance.randrange(len(records))] = self._chance.randrange(256)
        with raw.Raw(self._bootstrap, timeout_s=2) as client:
            client.call("produce", 9, a_produce(bytes(records)))

    # -- connections that hold on to what they have -------------------------------------------------

    def _never_reads(self) -> None:
        """Asks and asks; the answers pile up until the broker stops listening to it."""
        self._linger(self._frame_once("metadata", "metadata", 1, lambda: {"topics": None}) * 2000)

    def _lingers(self) -> None:
        self._linger(b"\0\0\1")  # and nothing more

    def _parked_long_poll(self) -> None:
        """Waits for more records than will ever come, with padding that nobody reads."""
        wanted = a_fetch(VICTIM, wait_ms=FOREVER_MS, bytes_min=2**31 - 1)
        frame = self._frame("fetch", 11, wanted)[4:]
        self._linger(framed(frame + bytes(self._chance.choice((0, 5_000, 100_000, 2_000_000)))))

    def _announces_and_is_silent(self) -> None:
        self._linger(struct.pack(">i", FRAME_BYTES_MAX) + bytes(self._chance.choice((0, 10, 5_000, 70_000))))

    def _half_a_large_frame(self) -> None:
        """And then it closes."""
        with self._connect() as connection:
            connection.sendall(struct.pack(">i", FRAME_BYTES_MAX))
            for _ in range(self._chance.randrange(1, 40)):
                connection.sendall(bytes(1 << 20))

    def _reads_slowly(self) -> None:
        if len(self._readers) < SLOW_READERS:
            request = self._frame("fetch", 11, a_fetch(LARGE, wait_ms=0, bytes_min=1))
            self._readers.append(SlowReader(self._connect(), request))

    def _opens_sessions(self) -> None:
        """Fetch sessions of thousands of partitions, of which the broker has one; the connection stays."""
        self._linger(self._frame_once("session", "fetch", 11, a_session) * self._chance.randrange(1, 4))

    # -- requests that want too much ----------------------------------------------------------------

    def _duplicates(self) -> None:
        api, version, body = self._chance.choice(REPEATS)
        self._say(self._frame_once(f"repeated {api}", api, version, body), patience_s=5)

    def _bombs(self) -> None:
        self._say(self._frame_once("bombs", "produce", 9, bombs), patience_s=5)

    def _very_many_refusals(self) -> None:
        frame = self._frame_once("refusals", "produce", 9, lambda: a_produce(from_the_future()))
        self._say(frame, patience_s=5)

    def _searches_by_time(self) -> None:
        partitions = [{"partition_index": 0, "timestamp": self._chance.choice((1, 2**60, -3))}]
        self._say(self._frame("list_offsets", 7, {"topics": [{"name": LARGE, "partitions": partitions}]}))

    def _costly_pattern(self) -> None:
        """Milliseconds for each long name: the broker has to look for topics that fit elsewhere than on its loop."""
        body = {
            "group_id": f"patterns-{self._chance.randrange(5)}",
            "member_id": f"member-{self._chance.randrange(5)}",
            "member_epoch": 0,
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": f"((a|b)?(.|a)?){{{self._chance.randrange(100, 200)}}}c",
            "topic_partitions": [],
        }
        self._say(self._frame("consumer_group_heartbeat", 1, body), patience_s=5)

    # -- share groups, streams groups, telemetry ----------------------------------------------------------

    def _shares_much(self) -> None:
        """Sessions of partitions that do not exist, of groups that nobody knows; acknowledgements of all kinds."""
        group = f"shares-{self._chance.randrange(100)}"
        places = self._chance.choice((1, 50, SHARED_PARTITIONS))
        data = self._frame_once(
            f"share {group} {places}", "share_fetch", 1, lambda: a_share_fetch(group, places)
        )
        acknowledged = self._frame_once(
            f"acknowledge {group}", "share_acknowledge", 1, lambda: acknowledgements(group, self._victim())
        )
        self._linger(data + acknowledged)

    def _parked_share_fetch(self) -> None:
        """Of all partitions of a topic, for ever."""
        group = f"shares-{self._chance.randrange(10)}"
        member = f"member-{self._chance.randrange(10)}"
        body = a_share_fetch(group, 0, member, wait_ms=FOREVER_MS)
        places = [{"partition_index": index} for index in range(BOMBS)]
        self._linger(
            self._frame(
                "share_fetch", 1, {**body, "topics": [{"topic_id": self._victim(), "partitions": places}]}
            )
        )

    def _large_topology(self) -> None:
        """Very many tasks, in the order that takes longest to understand; or too many names."""
        parts = self._chance.choice((1_000, 2_000, DUPLICATES // 2))
        frame = self._frame_once(
            f"topology {parts}",
            "streams_group_heartbeat",
            0,
            lambda: a_topology(f"streams-{parts}", VICTIM, parts),
        )
        self._say(frame, patience_s=5)

    def _many_states(self) -> None:
        kind = self._chance.choice(("initialize_share_group_state", "write_share_group_state"))
        self._say(self._frame_once(kind, kind, 0, lambda: some_states(kind, self._victim())), patience_s=5)

    def _many_instances(self) -> None:
        """Of clients that push metrics, with long names; what they push decompresses to much."""
        with raw.Raw(self._bootstrap, client_id="c" * 30_000) as client:
            ids = [uuid.UUID(int=self._chance.getrandbits(128)) for _ in range(50)]
            frames = [
                framed(client.frame("get_telemetry_subscriptions", 0, {"client_instance_id": each}))
                for each in ids
            ]
            body = {"client_instance_id": ids[0], "compression_type": 4, "metrics": a_bomb()}
            frames.append(framed(client.frame("push_telemetry", 0, body)))
        self._say(b"".join(frames), patience_s=1)

    def _victim(self) -> uuid.UUID:
        """The id of the topic."""
        if self._victim_id is None:
            with raw.Raw(self._bootstrap) as client:
                answer = client.call("metadata", 12, {"topics": [{"name": VICTIM, "topic_id": None}]})
            self._victim_id = uuid.UUID(str(answer["topics"][0]["topic_id"]))
        return self._victim_id

    # -- how -----------------------------------------------------------------------------------------

    def _connect(self) -> socket.socket:
        host, port = self._bootstrap.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), 5)
        connection.settimeout(0.2)
        return connection

    def _say(self, data: bytes, patience_s: float = 0.2) -> None:
        with self._connect() as connection:
            connection.sendall(data)
            connection.settimeout(patience_s)
            with contextlib.suppress(OSError):
                connection.recv(65536)

    def _linger(self, data: bytes) -> None:
        connection = self._connect()
        self._lingering.append(connection)
        with contextlib.suppress(OSError):
            connection.sendall(data)

    def _frame(self, api: str, version: int, body: dict[str, Any]) -> bytes:
        with raw.Raw(self._bootstrap) as client:
            return framed(client.frame(api, version, body))

    def _frame_once(self, kind: str, api: str, version: int, body: Callable[[], dict[str, Any]]) -> bytes:
        """Thousands of elements take their time, for which the broker would have peace."""
        if kind not in self._frames:
            self._frames[kind] = self._frame(api, version, body())
        return self._frames[kind]

    def _request(self) -> bytes:
        api, version = self._chance.choice(self._apis)
        with raw.Raw(self._bootstrap) as client:
            try:
                return client.frame(api, version)
            except Exception:  # a message that cannot be all zeros
                return client.frame("metadata", 1)


def fill(bootstraps: list[str], topic: str, megabytes: int) -> None:
    """Records for readers to be slow with. One of the brokers leads the topic."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch([bytes(900_000)])}]}]
    for bootstrap in bootstraps:
        with raw.Raw(bootstrap) as client:
            for _ in range(megabytes):
                client.call("produce", 9, {"acks": -1, "timeout": 30_000, "topic_data": data})
