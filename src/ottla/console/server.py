"""Serves the console with uvicorn until it is told to stop."""

import gc
import socket
from collections.abc import Callable
from pathlib import Path

from ottla.console.app import Console
from ottla.console.doorway import Config


def listen(host: str, port: int) -> socket.socket:
    """The socket to serve on; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listening.listen(128)
    return listening


def serve(
    config: Config,
    listening: socket.socket,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    ready: Callable[[Console], None] = lambda console: None,
) -> None:
    import asyncio

    import uvicorn

    from ottla.registry.connections import Impatient

    async def main() -> None:
        console = Console(config)
        settings = uvicorn.Config(
            console.application(),
            http=Impatient,
            log_level="warning",
            access_log=False,
            server_header=False,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            h11_max_incomplete_event_size=64 * 1024,
            limit_concurrency=500,
            timeout_graceful_shutdown=2,
        )

        class Server(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                console.streams.close()  # they would never end by themselves
                await super().shutdown(sockets)

        # The command line postpones collections for a quick start; a server that runs for days needs them.
        gc.freeze()
        gc.set_threshold(5_000, 10, 10)
        ready(console)
        await Server(settings).serve(sockets=[listening])

    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
