"""`ottla start --console --registry`: processes beside a broker, which must never slow its loop.

They end when the broker ends, however it does: then their standard input is closed.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
import threading
from contextlib import suppress

from ottla.config.protection import protocols_of
from ottla.config.settings import Config
from ottla.errors import OttlaError

Child = asyncio.subprocess.Process


def check(config: Config, arguments: argparse.Namespace) -> None:
    if arguments.open and arguments.console is None:
        raise OttlaError("--open opens the console in the browser; add --console")
    wanted = [name for name in ("console", "registry") if getattr(arguments, name) is not None]
    first = config.listeners[0].partition("://")[0].upper()
    if wanted and protocols_of(config.listener_security_protocol_map).get(first, "PLAINTEXT") != "PLAINTEXT":
        command = {"console": "console", "registry": "registry serve"}[wanted[0]]
        raise OttlaError(
            f"--{wanted[0]} goes to the first listener, and that one wants TLS or a login; leave --{wanted[0]} out and "
            f"run `ottla {command} --command-config FILE` beside the broker"
        )


async def start(address: str, arguments: argparse.Namespace, metrics: str | None) -> list[Child]:
    children = []
    registry: int | None = arguments.registry
    if registry == 0 and arguments.console is not None:
        registry = _free_port()  # the console must be told it
    if registry is not None:
        children.append(await _start(address, registry, "registry", "serve"))
    if arguments.console is not None:
        more = ["--metrics", metrics] if metrics is not None else []
        more += ["--registry", f"http://127.0.0.1:{registry}"] if registry is not None else []
        more += ["--open"] if arguments.open else []
        children.append(await _start(address, arguments.console, "console", *more))
    return children


async def _start(address: str, port: int, *command: str) -> Child:
    where = ["--bootstrap", address, "--port", str(port), "--end-with-stdin"]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ottla", *command, *where, stdin=asyncio.subprocess.PIPE
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def stop(children: list[Child]) -> None:
    for child in children:
        with suppress(ProcessLookupError):
            child.terminate()
        try:
            async with asyncio.timeout(5):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()


def end_with_stdin() -> None:
    """In the child: it ends when its parent does, because then the pipe closes."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
