"""A client of Kafka Connect's REST API, Ottla's worker or Java's. Its answers are waited for in threads."""

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ottla.console.masking import HIDDEN
from ottla.console.schemas import basic, split_login
from ottla.errors import OttlaError

TIMEOUT_S = 10.0
ANSWER_MAX = 32 * 1024 * 1024
KEPT_S, KEPT_MAX = 2.0, 100
ACTIONS = ("pause", "resume", "stop", "restart")
# Java's workers answer with passwords as they are. By name, whatever the plug-in calls them:
_SECRET = re.compile(
    r"password|passwd|passphrase|secret|token|credential|private|jaas|(^|[._-])key$|api.?key|access.?key",
    re.I,
)
_NO_SECRET = re.compile(r"(converter|class|format|fields?|columns?|strategy|serializer|enable[d]?)$", re.I)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


class ConnectRefused(OttlaError):
    """What the worker said, or why it said nothing."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Connect:
    def __init__(self, address: str, login: tuple[str, str] | None = None) -> None:
        self.address = address
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if login is not None:
            self._headers["Authorization"] = basic(login)
        self._passwords: dict[str, frozenset[str]] = {}
        self._kept: dict[str, tuple[float, Any]] = {}

    @classmethod
    def at(cls, url: str) -> "Connect":
        """`http://NAME:PASSWORD@HOST:PORT` logs in."""
        return cls(*split_login(url))

    async def connectors(self) -> dict[str, Any]:
        """All of them, with their settings and states."""
        told = await self.ask("GET", "/connectors?expand=info&expand=status")
        return dict(told or {})

    async def status(self, name: str) -> dict[str, Any]:
        return dict(await self.ask("GET", f"/connectors/{quote(name, safe='')}/status"))

    async def settings(self, name: str) -> dict[str, str]:
        return dict(await self.ask("GET", f"/connectors/{quote(name, safe='')}/config"))

    async def offsets(self, name: str) -> list[dict[str, Any]] | None:
        """How far it has come; None from workers before Kafka 3.5, which do not tell."""
        try:
            told = await self.ask("GET", f"/connectors/{quote(name, safe='')}/offsets")
        except ConnectRefused:
            return None
        return list(told.get("offsets") or [])

    async def act(self, name: str, action: str) -> None:
        if action not in ACTIONS:
            raise ConnectRefused(f"{action!r} is not one of {', '.join(ACTIONS)}")
        path = f"/connectors/{quote(name, safe='')}/{action}"
        if action == "restart":
            await self.ask("POST", f"{path}?includeTasks=true")
        else:
            await self.ask("PUT", path)

    async def restart_task(self, name: str, task: int) -> None:
        await self.ask("POST", f"/connectors/{quote(name, safe='')}/tasks/{task}/restart")

    async def passwords(self, plugin: str) -> frozenset[str]:
        """Settings that the plug-in itself declares to be passwords; asked once for each class."""
        if plugin not in self._passwords:
            try:
                told = await self.ask("GET", f"/connector-plugins/{quote(plugin, safe='')}/config")
            except ConnectRefused:
                told = []
            names = frozenset(str(each.get("name")) for each in told if each.get("type") == "PASSWORD")
            self._passwords = {**dict(list(self._passwords.items())[-200:]), plugin: names}
        return self._passwords[plugin]

    async def ask(self, method: str, path: str) -> Any:
        """Answers are kept for a moment: a page that is watched asks every second, a worker needs not."""
        if method != "GET":
            self._kept.clear()
            return await asyncio.to_thread(self._ask, method, path)
        at, told = self._kept.get(path, (-KEPT_S, None))
        if time.monotonic() - at > KEPT_S:
            told = await asyncio.to_thread(self._ask, method, path)
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[path] = time.monotonic(), told
        return told

    def _ask(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self.address + path, None, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                text = response.read(ANSWER_MAX)
            return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise ConnectRefused(_message(error), error.code) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ConnectRefused(f"no Connect worker answers at {self.address}: {reason}") from None


def without_secrets(settings: Mapping[str, str], passwords: frozenset[str]) -> dict[str, str]:
    """For people: passwords are hidden, placeholders of secrets are not."""
    shown = {}
    for name, value in sorted(settings.items()):
        text = str(value)
        if is_secret(name, passwords) and text and not _PLACEHOLDER.fullmatch(text):
            text = HIDDEN
        shown[name] = without_logins(text)
    return shown


def without_logins(text: str) -> str:
    """A trace may hold an address with a password."""
    return _LOGIN.sub(f"{HIDDEN}@", text)


def is_secret(name: str, passwords: frozenset[str]) -> bool:
    if name in passwords:
        return True
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(65_536))["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"{error.code} {error.reason}"
