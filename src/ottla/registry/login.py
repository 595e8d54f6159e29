"""Who may use the registry: names and passwords of a file, or of the cluster itself. HTTP Basic, as Confluent's."""

import base64
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.client.admin import Admin
from ottla.errors import OttlaError
from ottla.registry.rights import CHANGE, READ, Rights
from ottla.security.acls import Operation
from ottla.security.passwords import NOBODY, is_password

_REMEMBERED_S, _REMEMBERED_MAX = 60.0, 1_000
_CHECKS_AT_ONCE = 4  # of passwords: each takes a tenth of a second, or a login at a broker


class Credentials(NamedTuple):
    name: str
    password: str


Check = Callable[[Credentials], Rights | None]
"""What they may do; None when they are wrong. May take a while."""


class Login:
    """Passwords that were right are remembered for a minute, as digests."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._secret = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, Rights]] = OrderedDict()
        self._lock = threading.Lock()
        self._checks = threading.Semaphore(_CHECKS_AT_ONCE)

    def remembered(self, header: str | None) -> Rights | None:
        """What the header's owner may do, if that was checked a short while ago."""
        with self._lock:
            until, rights = self._known.get(self._digest(header), (0.0, None))
        return rights if until > time.monotonic() else None

    def check(self, header: str | None) -> Rights | None:
        """As `remembered`, and checks what is not. Blocks."""
        credentials = basic(header)
        if credentials is None:
            return None
        with self._checks:
            rights = self.remembered(header) or self._check(credentials)
        if rights is not None:
            with self._lock:
                self._known[self._digest(header)] = (time.monotonic() + _REMEMBERED_S, rights)
                while len(self._known) > _REMEMBERED_MAX:
                    self._known.popitem(last=False)
        return rights

    def _digest(self, header: str | None) -> bytes:
        return hmac.digest(self._secret, (header or "").encode(), "sha256")


def basic(header: str | None) -> Credentials | None:
    """The name and password of an Authorization header."""
    kind, _, token = (header or "").partition(" ")
    try:
        name, colon, password = base64.b64decode(token.strip(), validate=True).decode().partition(":")
    except ValueError:  # not ASCII, not Base64, or not UTF-8
        return None
    return Credentials(name, password) if kind.lower() == "basic" and colon else None


def of_file(text: str) -> Check:
    """Lines `NAME:HASH`, or `NAME:HASH:read` for one who may change nothing; `ottla console --hash-password` makes
    the hashes."""
    users: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, hashed, may, *more = (
            (*line.strip().split(":"), CHANGE) if line.count(":") == 1 else line.strip().split(":")
        )
        if more or not hashed.startswith("scrypt$") or may not in (READ, CHANGE):
            raise ValueError(
                f"line {number} of the users' file is not NAME:HASH or NAME:HASH:read; "
                "ottla console --hash-password makes the hash"
            )
        users[name] = hashed, may

    def check(credentials: Credentials) -> Rights | None:
        hashed, may = users.get(credentials.name, (NOBODY, ""))
        return Rights(may) if is_password(credentials.password, hashed) and may else None

    return check


def of_cluster(client: Mapping[str, Any], topic: str) -> Check:
    """Users of the cluster: those that can log in there. What they may do is what the cluster's rules say of topics:
    of the registry's own for all subjects, else of the one that a subject is named after."""

    def check(credentials: Credentials) -> Rights | None:
        settings = {**client, "sasl.username": credentials.name, "sasl.password": credentials.password}

        def ask(name: str) -> frozenset[Operation]:
            with Admin(settings) as admin:
                return admin.authorized_operations([name])[name]

        try:
            own = ask(topic)
        except OttlaError:
            return None
        everything = CHANGE if Operation.WRITE in own else READ if Operation.DESCRIBE in own else None
        return Rights(everything, ask)

    return check
