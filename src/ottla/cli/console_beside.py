"""`ottla start --console`: the console as a child of a broker."""

import asyncio
import sys
from contextlib import suppress

from ottla.config.protection import protocols_of
from ottla.config.settings import Config
from ottla.errors import OttlaError


def check(config: Config) -> None:
    first = config.listeners[0].partition("://")[0].upper()
    if protocols_of(config.listener_security_protocol_map).get(first, "PLAINTEXT") != "PLAINTEXT":
        raise OttlaError(
            "--console goes to the first listener, and that one wants TLS or a login; leave --console out and run "
            "`ottla console --command-config FILE` beside the broker"
        )


async def start(address: str, port: int, metrics: str | None = None) -> asyncio.subprocess.Process:
    """`ottla console` as a child: it must never slow the broker's loop. It ends when its standard input does."""
    command = [sys.executable, "-m", "ottla", "console", "--bootstrap", address, "--port", str(port)]
    command += ["--metrics", metrics] if metrics is not None else []
    return await asyncio.create_subprocess_exec(*command, "--end-with-stdin", stdin=asyncio.subprocess.PIPE)


async def stop(console: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        console.terminate()
    try:
        async with asyncio.timeout(5):
            await console.wait()
    except TimeoutError:
        console.kill()
        await console.wait()
