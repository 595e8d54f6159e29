"""The HTTP server of a worker, in a thread."""

import socket
import threading
import time
from typing import Any

import uvicorn

from ottla.connect.errors import ConnectError

_START_S = 30.0


class RestServer:
    """Binds at once, so that a port in use is an error of the start."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host.strip("[]"), port))
        except OSError as error:
            self._socket.close()
            raise ConnectError(
                f"REST cannot listen on {host or '*'}:{port}: {error.strerror}; set listeners=http://host:port"
            ) from error
        self.port: int = self._socket.getsockname()[1]

    def start(self, app: Any) -> None:
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="connect-rest", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise ConnectError("the REST server does not start; its log tells more")
            time.sleep(0.005)

    def close(self) -> None:
        if hasattr(self, "_server"):
            self._server.should_exit = True
            self._thread.join(10)
        self._socket.close()
