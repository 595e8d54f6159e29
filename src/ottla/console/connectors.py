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
    r"password|passwd|passphrase|secret|token|credential|private|jaas|(^|[._-])key$|api.?key|access.?key"
    r"|user\.info|authorization|headers?$",  # a header of requests is often a login
    re.I,
)
_NO_SECRET = re.compile(r"(converter|class|format|fields?|columns?|strategy|serializer|enable[d]?)$", re.I)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_WORD = re.compile(r"\S+")
# In addresses (`?password=x`), in settings within a setting (`password="x"`), and in JSON (`"password": "x"`).
_ASSIGNED = re.compile(
    r"""((?:password|passwd|passphrase|pwd|secret|token|api.?key|access.?key|user\.info)(?:["']?\s*=\s*|["']\s*:\s*))"""
    r"""("[^"]*"|'[^']*'|[^&;\s]+)""",
    re.I,
)
_AUTHORIZATION = re.compile(r"""(authorization\W{1,4}(?:basic|bearer|token|apikey)\s+)[^\s,;"']+""", re.I)


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
        answer = await self.ask("GET", "/connectors?expand=info&expand=status")
        return dict(answer or {})

    async def status(self, name: str) -> dict[str, Any]:
        return dict(await self.ask("GET", f"/connectors/{quote(name, safe='')}/status"))

    async def settings(self, name: str) -> dict[str, str]:
        return dict(await self.ask("GET", f"/connectors/{quote(name, safe='')}/config"))

    async def offsets(self, name: str) -> list[dict[str, Any]] | None:
        """How far it has come; None from workers before Kafka 3.5, which do not tell."""
        try:
            answer = await self.ask("GET", f"/connectors/{quote(name, safe='')}/offsets")
        except ConnectRefused:
            return None
        return list(answer.get("offsets") or [])

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
                definitions = await self.ask("GET", f"/connector-plugins/{quote(plugin, safe='')}/config")
            except ConnectRefused:
                definitions = []
            names = frozenset(
                str(definition.get("name"))
                for definition in definitions
                if definition.get("type") == "PASSWORD"
            )
            self._passwords = {**dict(list(self._passwords.items())[-200:]), plugin: names}
        return self._passwords[plugin]

    async def ask(self, method: str, path: str) -> Any:
        """Answers are kept for a moment: a page that is watched asks every second, a worker needs not."""
        if method != "GET":
            self._kept.clear()
            return await asyncio.to_thread(self._ask, method, path)
        at, answer = self._kept.get(path, (-KEPT_S, None))
        if time.monotonic() - at > KEPT_S:
            answer = await asyncio.to_thread(self._ask, method, path)
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[path] = time.monotonic(), answer
        return answer

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
    """For people: a trace or a setting may hold an address with a login, or a password with its name."""
    text = _WORD.sub(lambda word: _without_login(word[0]), text)
    text = _AUTHORIZATION.sub(rf"\g<1>{HIDDEN}", text)
    return _ASSIGNED.sub(_hidden_value, text)


def _without_login(word: str) -> str:
    """Up to the last @: a password may hold any other character of an address, and some write @ as it is. Rather
    too much is hidden than too little. A pattern would take quadratic time for texts of many `://`."""
    scheme, separator, rest = word.partition("://")
    login, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{HIDDEN}{at}{host}" if login else word


def _hidden_value(assigned: re.Match[str]) -> str:
    return assigned[0] if _PLACEHOLDER.fullmatch(assigned[2].strip("\"'")) else assigned[1] + HIDDEN


def is_secret(name: str, passwords: frozenset[str]) -> bool:
    if name in passwords:
        return True
    return bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return without_logins(str(json.loads(error.read(65_536))["message"]))
    except (ValueError, KeyError, TypeError, OSError):
        return f"{error.code} {error.reason}"
