"""Those who have not logged in: what they get, what they cost, and whether anybody notices them.

    python -m tests.soak.strangers [--seconds 60] [--seed N]

A broker with a listener for TLS and one without, both with a login. Before the login: requests of every API and
version, damaged logins, half frames, silence. Then for the given time 1,000 half-open TLS handshakes at once and
1,000 wrong passwords a second, beside a client that does everything right. Wrong is: an API that answers a stranger,
a stranger who is never cut off, memory that strangers keep, a healthy client that is let down, and a loop that is
later than 50 ms (more where the machine itself is late, as a process beside it measures).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from ottla.cli.start import run_loop
from ottla.client import Admin, Consumer, Producer
from ottla.security.certificates import Authority
from ottla.wire.messages import APIS
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports
from tests.soak.fuzz import memory_mb
from tests.soak.lag import http_lag, http_port, yardstick

TOPIC, PASSWORD = "visits", "a-secret"
HALF_OPEN, WRONG_A_SECOND = 1000, 1000
LAG_S = 0.05
ALLOWED = {17: "SaslHandshake", 18: "ApiVersions", 36: "SaslAuthenticate"}
IDLE = 500
IDLE_KB_MAX = 64
HALF_FRAMES = 50
FRAME_BYTES_MAX = 512 << 10
_CUT_OFF_S = 60
_ANSWER_S = 20
_PROCESSES = 2


@dataclass(slots=True)
class Report:
    seconds: float = 0.0
    apis_asked: int = 0
    damaged_logins: int = 0
    idle_kb: float = 0.0  # of a connection that says nothing
    half_frame_kb: float = 0.0  # of one that sent all but the end of the longest frame
    wrong_passwords_a_second: float = 0.0
    half_open: int = 0
    healthy_records: int = 0
    healthy_p99_ms: float = 0.0
    lag_seconds_max: float = 0.0
    machine_lag_seconds_max: float = 0.0
    queue: float = 1.0  # threads that want to run, for each core
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class Target:
    """The broker, its two listeners, and how to log in."""

    def __init__(self, server: Ottla, plain: int, tls: int, authority: str) -> None:
        self.server, self.plain, self.tls = server, plain, tls
        self.client = {
            "bootstrap.servers": f"127.0.0.1:{tls}",
            "security.protocol": "SASL_SSL",
            "ssl.truststore.certificates": authority,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }

    def memory_mb(self) -> float:
        return memory_mb(self.server.pid())

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.plain), _CUT_OFF_S)


@contextmanager
def started() -> Iterator[Target]:
    plain, tls = free_ports(2)
    authority = Authority()
    identity = authority.issue("broker", "localhost", "127.0.0.1")
    jaas = f'PlainLoginModule required user_alice="{PASSWORD}" username="alice" password="{PASSWORD}";'
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{tls}",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key,
        "ssl.keystore.certificate.chain": identity.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
        **{f"listener.name.{name}.plain.sasl.jaas.config": jaas for name in ("sasl_plaintext", "sasl_ssl")},
    }
    with Ottla(plain, settings=settings, options=["--http", "0"]) as server:
        target = Target(server, plain, tls, authority.pem)
        with Admin(target.client) as admin:
            admin.create_topic(TOPIC, 1, 1)
        yield target


# -- what a stranger gets ------------------------------------------------------------------------------------


def request(api: int, version: int, body: bytes = b"") -> bytes:
    header = struct.pack(">hhih", api, version, 1, -1)
    flexible = b"\0" if api in APIS and version >= APIS[api].flexible_from and api != 18 else b""
    return framed(header + flexible + body)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def answer(connection: socket.socket) -> bytes:
    """What the broker says, up to a frame; empty when it closes the connection."""
    connection.settimeout(_CUT_OFF_S)
    try:
        return connection.recv(1 << 16)
    except ConnectionError:
        return b""


def ask_every_api(target: Target, report: Report, chance: random.Random) -> None:
    for api in range(-1, 120):
        known = APIS.get(api)
        versions = range(known.version_min, known.version_max + 1) if known else (0,)
        for version in versions:
            report.apis_asked += 1
            with target.connect() as connection:
                connection.sendall(request(api, version, chance.randbytes(chance.choice((0, 8, 60)))))
                if api not in ALLOWED and (said := answer(connection)):
                    report.wrong.append(f"API {api} version {version} answered a stranger: {said[:40].hex()}")


def damage_logins(target: Target, report: Report, chance: random.Random, count: int) -> None:
    """After whatever a stranger said in place of a login, a request for metadata is not answered."""
    token = b"\0alice\0" + PASSWORD.encode()
    right = [
        request(17, 1, struct.pack(">h5s", 5, b"PLAIN")),
        request(17, 0, struct.pack(">h5s", 5, b"PLAIN")),
        request(17, 1, struct.pack(">h13s", 13, b"SCRAM-SHA-256")),
        request(36, 0, struct.pack(">i", len(token)) + token),
        request(18, 0),
    ]
    metadata = struct.pack(">hhih", 3, 1, 77, -1) + struct.pack(">i", -1)
    for _ in range(count):
        report.damaged_logins += 1
        with target.connect() as connection, contextlib.suppress(ConnectionError):
            for frame in chance.choices(right[:3] + right[4:], k=chance.randrange(3)):
                connection.sendall(frame)
            bad = damaged(chance.choice(right[:4]), chance)
            while token in bad:  # another correlation id, say: still a right login
                bad = damaged(bad, chance)
            connection.sendall(bad)
            connection.sendall(framed(metadata))
            if _answers_of(connection, 77):
                report.wrong.append("metadata was answered after a damaged login")


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """The length stays right, so that the next frame is one."""
    body = bytearray(frame[4:])
    for _ in range(chance.randrange(1, 4)):
        match chance.randrange(3):
            case 0 if body:
                body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
            case 1 if len(body) > 1:
                del body[chance.randrange(len(body))]
            case _:
                body.insert(chance.randrange(len(body) + 1), chance.randrange(256))
    return framed(bytes(body))


def _answers_of(connection: socket.socket, correlation_id: int) -> bool:
    """Whether a frame with this id comes before the broker closes the connection."""
    connection.settimeout(_CUT_OFF_S)
    received = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(1 << 16):
            received += chunk
            while len(received) >= 4 and len(received) >= 4 + (size := struct.unpack_from(">i", received)[0]):
                frame, received = received[4 : 4 + size], received[4 + size :]
                if frame[:4] == struct.pack(">i", correlation_id) and len(frame) > 4:
                    return True
    return False


# -- what a stranger costs -----------------------------------------------------------------------------------


def weigh(target: Target, report: Report) -> None:
    with ExitStack() as stack:
        before = target.memory_mb()
        for _ in range(IDLE):
            stack.enter_context(target.connect()).sendall(request(18, 0))
        _until_quiet(target)
        report.idle_kb = round((target.memory_mb() - before) * 1024 / IDLE, 1)
    if report.idle_kb > IDLE_KB_MAX:
        report.wrong.append(f"a connection that says nothing costs {report.idle_kb} KB")
    with ExitStack() as stack:
        before = target.memory_mb()
        for _ in range(HALF_FRAMES):
            connection = stack.enter_context(target.connect())
            connection.sendall(struct.pack(">i", FRAME_BYTES_MAX) + bytes(FRAME_BYTES_MAX - 1))
        _until_quiet(target)
        report.half_frame_kb = round((target.memory_mb() - before) * 1024 / HALF_FRAMES, 1)
    if report.half_frame_kb > 2 * FRAME_BYTES_MAX / 1024:
        report.wrong.append(f"half a frame of a stranger costs {report.half_frame_kb} KB")


def _until_quiet(target: Target) -> None:
    """What was sent before is worked off when a login after it is."""
    with Admin(target.client) as admin:
        admin.describe_cluster()


def see_silent_ones_cut_off(target: Target, report: Report) -> None:
    """In the middle of the handshake, before the login, in the middle of it."""
    with ExitStack() as stack:
        silent = {
            "a TLS handshake": socket.create_connection(("127.0.0.1", target.tls), _CUT_OFF_S),
            "a login": target.connect(),
            "a token": target.connect(),
        }
        for connection in silent.values():
            stack.enter_context(connection)
        silent["a TLS handshake"].sendall(b"\x16\x03\x01\x02")
        silent["a token"].sendall(request(17, 1, struct.pack(">h5s", 5, b"PLAIN")))
        silent["a token"].recv(1 << 16)
        for where, connection in silent.items():
            try:
                while connection.recv(1 << 16):
                    pass
            except TimeoutError:
                report.wrong.append(f"who stays silent in {where} is not cut off in {_CUT_OFF_S} s")
            except ConnectionError:
                pass


# -- whether anybody notices ---------------------------------------------------------------------------------


def guess_passwords(port: int, a_second: float, stop: Any, count: Any) -> None:
    """A process: so many logins with a wrong password, each on a connection of its own."""
    run_loop(_guess(port, a_second, stop, count))


async def _guess(port: int, a_second: float, stop: Any, count: Any) -> None:
    begun, started, running = time.monotonic(), 0, set[asyncio.Task[None]]()
    while not stop.is_set():
        due = int((time.monotonic() - begun) * a_second)
        while started < due and len(running) < a_second:
            task = asyncio.ensure_future(_wrong_password(port, count))
            running.add(task)
            task.add_done_callback(running.discard)
            started += 1
        started = max(
            started, due - int(a_second)
        )  # a machine that is too slow does not owe more than a second
        await asyncio.sleep(0.005)
    await asyncio.gather(*running, return_exceptions=True)


async def _wrong_password(port: int, count: Any) -> None:
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    with contextlib.suppress(OSError):
        _, guess = await loop.create_connection(lambda: _Guess(over), "127.0.0.1", port)
        await over
        if b"Authentication failed" in guess.said:
            count.value += 1


class _Guess(asyncio.Protocol):
    """Both requests at once, then what the broker says. Streams would take more of the processor than the broker."""

    def __init__(self, over: asyncio.Future[None]) -> None:
        self._over, self.said = over, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.WriteTransport, transport).write(_WRONG_LOGIN)

    def data_received(self, data: bytes) -> None:
        self.said += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._over.set_result(None)


_TOKEN = b"\0alice\0wrong"
_WRONG_LOGIN = request(17, 1, struct.pack(">h5s", 5, b"PLAIN")) + request(
    36, 0, struct.pack(">i", len(_TOKEN)) + _TOKEN
)


def stand_in_the_door(port: int, half_open: int, stop: Any) -> None:
    """A process: so many TLS handshakes that do not go on; one that is cut off is begun again."""
    run_loop(_stand(port, half_open, stop))


async def _stand(port: int, half_open: int, stop: Any) -> None:
    async def one() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"\x16\x03\x01\x02")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(5):
                        await reader.read()
                writer.close()
            await asyncio.sleep(0.5)

    await asyncio.gather(*(one() for _ in range(half_open)))


def crowd(target: Target, report: Report, seconds: float, say: Callable[[str], None]) -> None:
    context = multiprocessing.get_context("spawn")
    stop, quiet_end = context.Event(), context.Event()
    worst, counts = context.Value("d", 0.0), [context.Value("i", 0) for _ in range(_PROCESSES)]
    share = WRONG_A_SECOND / _PROCESSES
    processes = [
        context.Process(target=yardstick, args=(quiet_end, worst)),
        *(context.Process(target=guess_passwords, args=(target.plain, share, stop, one)) for one in counts),
        context.Process(target=stand_in_the_door, args=(target.tls, HALF_OPEN, stop)),
    ]
    for process in processes:
        process.start()
    try:
        _until_all_are_at_work([worst, *counts])
        begun, before = time.monotonic(), sum(one.value for one in counts)
        times_ms = asyncio.run(_healthy(target, report, seconds))
        refused, took = sum(one.value for one in counts) - before, time.monotonic() - begun
    finally:
        stop.set()
        quiet_end.set()
        for process in processes:
            process.join(_CUT_OFF_S)
            process.kill()
    report.half_open = HALF_OPEN
    report.wrong_passwords_a_second = round(refused / took, 1)
    report.healthy_p99_ms = round(times_ms[int(len(times_ms) * 0.99)], 1) if times_ms else 0.0
    report.machine_lag_seconds_max = round(worst.value, 3)
    allowed = report.machine_lag_seconds_max + LAG_S * report.queue
    guesses = f"{report.wrong_passwords_a_second:.0f} wrong passwords a second"
    say(f"loop lag {report.lag_seconds_max} s, allowed {allowed:.3f} s; {guesses}")
    if report.lag_seconds_max >= allowed:
        report.wrong.append(f"the loop was {report.lag_seconds_max} s late, {allowed:.3f} s are allowed")


def _until_all_are_at_work(figures: list[Any]) -> None:
    deadline = time.monotonic() + _CUT_OFF_S
    while not all(figure.value for figure in figures):
        assert time.monotonic() < deadline, "those who are to be refused do not begin"
        time.sleep(0.05)


async def _healthy(target: Target, report: Report, seconds: float) -> list[float]:
    """One record after the other, while the loop's lag is looked at."""
    loop = asyncio.get_running_loop()
    times_ms: list[float] = []
    port = http_port(target.server)
    with Producer(target.client, linger_ms=0) as producer:
        until, looked = time.monotonic() + seconds, 0.0
        while time.monotonic() < until:
            begun = time.monotonic()
            future = producer.send(TOPIC, str(report.healthy_records).encode())
            await loop.run_in_executor(None, future.result, _ANSWER_S)
            times_ms.append((time.monotonic() - begun) * 1000)
            report.healthy_records += 1
            if begun - looked > 1:
                looked = begun
                report.lag_seconds_max = round(max(report.lag_seconds_max, await http_lag(port)), 3)
                report.queue = max(report.queue, round(os.getloadavg()[0] / (os.cpu_count() or 1), 1))
            await asyncio.sleep(0.005)
    return sorted(times_ms)


def read_back(target: Target, report: Report) -> None:
    with Consumer(target.client, auto_offset_reset="earliest", group_id="reader") as consumer:
        consumer.subscribe(TOPIC)
        values: list[bytes] = []
        deadline = time.monotonic() + _CUT_OFF_S
        while len(values) < report.healthy_records and time.monotonic() < deadline:
            values += [record.value for record in consumer.poll(1.0)]
    if values != [str(number).encode() for number in range(report.healthy_records)]:
        report.wrong.append(f"{len(values)} of {report.healthy_records} records are there in order")


def run(seconds: float, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    report, chance = Report(seconds), random.Random(seed)
    with started() as target:
        ask_every_api(target, report, chance)
        damage_logins(target, report, chance, max(50, int(seconds * 10)))
        say(f"{report.apis_asked} requests and {report.damaged_logins} damaged logins of strangers")
        weigh(target, report)
        say(f"a silent stranger costs {report.idle_kb} KB, half a frame {report.half_frame_kb} KB")
        crowd(target, report, seconds, say)
        see_silent_ones_cut_off(target, report)
        read_back(target, report)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    report = run(options.seconds, options.seed, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps({"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
