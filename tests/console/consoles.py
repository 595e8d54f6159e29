"""A console as a process, and a browser that looks at it."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, build_opener

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_S = 120.0


class Console:
    """`ottla console` against these servers; a context manager. `login()` gives an address that lets a browser in."""

    def __init__(self, bootstrap: str, *options: str, settings: dict[str, str] | None = None) -> None:
        more = [part for name, value in (settings or {}).items() for part in ("-X", f"{name}={value}")]
        self._command = [
            sys.executable,
            "-m",
            "ottla",
            "console",
            "--bootstrap",
            bootstrap,
            "--port",
            "0",
            *options,
            *more,
        ]
        self.lines: list[str] = []
        self._heard = threading.Condition()

    def __enter__(self) -> Console:
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self.address = self._wait(lambda line: line.startswith("console ")).split()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def base(self) -> str:
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def login(self) -> str:
        """The newest address with a token: each of them is good for one browser."""
        with self._heard:
            found = [line.split()[-1] for line in self.lines if "?token=" in line]
        used = getattr(self, "_used", set())
        self._used = used
        fresh = [each for each in found if each not in used]
        if fresh:
            used.add(fresh[-1])
            return fresh[-1]
        before = len(found)
        self._wait(lambda _: sum("?token=" in line for line in self.lines) > before)
        return self.login()

    def client(self) -> Client:
        client = Client(self.base)
        client.get(self.login().removeprefix(self.base))
        return client

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._heard:
                self.lines.append(line)
                self._heard.notify_all()

    def _wait(self, is_it: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE_S
        with self._heard:
            while True:
                for line in self.lines:
                    if is_it(line):
                        return line
                if time.monotonic() > deadline or (
                    not self._heard.wait(0.5) and self.process.poll() is not None
                ):
                    raise AssertionError(f"the console did not say so:\n{self.output}")


class Client:
    """An HTTP client with a cookie jar, for what needs no browser."""

    def __init__(self, base: str, tls: ssl.SSLContext | None = None) -> None:
        from http.cookiejar import CookieJar
        from urllib.request import HTTPCookieProcessor, HTTPErrorProcessor, HTTPSHandler

        class Plain(HTTPErrorProcessor):
            """An answer is an answer: no exception for 403, no redirect that is followed."""

            def http_response(self, request: Any, response: Any) -> Any:
                return response

            https_response = http_response

        self.base = base
        self.jar = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self.jar), Plain, HTTPSHandler(context=tls))

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask(
            Request(self.base + path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        )

    def post(self, path: str, data: dict[str, str] | bytes, **headers: str) -> Answer:
        from urllib.parse import urlencode

        body = data if isinstance(data, bytes) else urlencode(data).encode()
        return self._ask(
            Request(self.base + path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        )

    def json(self, path: str) -> Any:
        answer = self.get(path + ("&" if "?" in path else "?") + "format=json")
        assert answer.status == 200, answer.text
        return json.loads(answer.text)

    def csrf(self) -> str:
        return self.get("/changes").text.split('name="csrf" content="')[1].split('"')[0]

    def change(self, action: str, /, **fields: str) -> Answer:
        return self.post(f"/do/{action}", {"csrf": self.csrf(), "back": "/changes", **fields})

    def _ask(self, request: Request) -> Answer:
        with self._opener.open(request, timeout=PATIENCE_S) as response:
            return Answer(response.status, dict(response.headers.items()), response.read().decode())


class Answer:
    def __init__(self, status: int, headers: dict[str, str], text: str) -> None:
        self.status, self.text = status, text
        self.headers = {name.lower(): value for name, value in headers.items()}


def rows(page: Any, table: str) -> list[dict[str, Any]]:
    """The rows of a table in a page's JSON."""
    return next(block["rows"] for block in page["blocks"] if block.get("key") == table)


def shared(client: Client) -> dict[str, Any]:
    """The only partition of the share group of `surroundings`."""
    (row,) = rows(client.json("/group?id=sharers"), "progress")
    return row


def until(is_so: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    deadline = time.monotonic() + patience_s
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {patience_s} s in vain: {what}"
        time.sleep(0.05)
