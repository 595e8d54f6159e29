"""Who looks: one-time tokens, sessions in cookies, tokens against forged requests, the Host header, passwords."""

import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.console.model import Notice

SESSIONS_MAX = 1000
IDLE_S = 12 * 3600.0
FAILURES_MAX, FAILURES_S = 10, 60.0


@dataclass(slots=True)
class Session:
    """A browser that was let in. `settings` are the viewer's own client settings after a login as a Kafka user."""

    id: str
    viewer: str
    csrf: str
    used_at: float
    settings: Mapping[str, Any] | None = None
    ends_at: float = math.inf  # with the token that it was opened with
    notices: list[Notice] = field(default_factory=list)  # shown once, on the next page


class Sessions:
    """All sessions, in memory only. The oldest go first when there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._tokens: dict[str, str] = {}
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    # -- one-time tokens ---------------------------------------------------------------------------

    def issue_token(self, viewer: str) -> str:
        """For an address that is printed. It is good for one browser."""
        token = secrets.token_urlsafe(24)
        self._tokens[_digest(token)] = viewer
        return token

    def redeem(self, token: str) -> Session | None:
        viewer = self._tokens.pop(_digest(token), None)
        return None if viewer is None else self.open(viewer)

    # -- sessions ----------------------------------------------------------------------------------

    def open(
        self, viewer: str, settings: Mapping[str, Any] | None = None, expires_s: float | None = None
    ) -> Session:
        while len(self._sessions) >= SESSIONS_MAX:
            self._sessions.popitem(last=False)
        now = self._clock()
        ends_at = math.inf if expires_s is None else now + expires_s
        session = Session(
            secrets.token_urlsafe(32), viewer, secrets.token_urlsafe(24), now, settings, ends_at
        )
        self._sessions[_digest(session.id)] = session
        return session

    def get(self, identity: str | None) -> Session | None:
        session = self._sessions.get(_digest(identity)) if identity else None
        if session is None:
            return None
        if self._clock() - session.used_at > IDLE_S or self._clock() >= session.ends_at:
            self.close(session)
            return None
        session.used_at = self._clock()
        self._sessions.move_to_end(_digest(session.id))
        return session

    def close(self, session: Session) -> None:
        self._sessions.pop(_digest(session.id), None)

    # -- guessing ----------------------------------------------------------------------------------

    def may_try(self, address: str) -> bool:
        """Ten wrong passwords a minute from one address, then none."""
        recent = [at for at in self._failures.get(address, []) if self._clock() - at < FAILURES_S]
        return len(recent) < FAILURES_MAX

    def on_failure(self, address: str) -> None:
        recent = [at for at in self._failures.pop(address, []) if self._clock() - at < FAILURES_S]
        self._failures[address] = [*recent, self._clock()][-FAILURES_MAX:]
        while len(self._failures) > SESSIONS_MAX:
            self._failures.popitem(last=False)


def is_forged(
    session: Session, token: str | None, origin: str | None, host: str, fetch_site: str | None
) -> bool:
    """Whether a change was not asked for by one of our own pages."""
    if token is None or not hmac.compare_digest(token.encode(), session.csrf.encode()):
        return True
    if fetch_site not in (None, "same-origin", "none"):
        return True
    return origin not in (None, f"http://{host}", f"https://{host}")


def is_ours(host: str | None, names: Iterable[str], port: int) -> bool:
    """Whether the Host header is a name of this console. A page of another site that had its name changed to our
    address (DNS rebinding) sends its own."""
    if not host:
        return False
    name, _, named_port = host.rpartition(":") if _has_port(host) else (host, "", "")
    if named_port and named_port != str(port):
        return False
    return name.lower() in {known.lower() for known in names}


def _has_port(host: str) -> bool:
    return ":" in host and not host.endswith("]") and host.rsplit(":", 1)[1].isdigit()


def _digest(token: str) -> str:
    """Looked up by digest: the time of a comparison tells nothing about a token."""
    return hashlib.sha256(token.encode()).hexdigest()
