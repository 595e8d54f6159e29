"""TLS alerts: a client whose handshake fails is told why before the connection ends.

Event loops close a connection as soon as its handshake fails, and drop the alert that OpenSSL has written by then. The
Java client takes the lost connection for a broker that is down, and tries again until it times out.
"""

import logging
import ssl
from typing import Any

logger = logging.getLogger("ottla.server")

# Such a client cannot read an alert. It is disconnected at once.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL")


class AlertingObject(ssl.SSLObject):
    """After a failure that has an alert the handshake seems to wait for more input: the loop sends the alert and
    reads on. The client closes the connection, or the time-out of handshakes does.
    """

    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    _has_failed = False

    def do_handshake(self) -> None:
        if self._has_failed:
            self.incoming.read()  # nobody will; without this a client could fill the memory
            raise ssl.SSLWantReadError
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if not self.outgoing.pending or error.reason in _NOT_TLS:
                raise
            logger.info("a TLS handshake failed, and the client is told: %s", error)
            self._has_failed = True
            raise ssl.SSLWantReadError from error


class AlertingContext(ssl.SSLContext):
    sslobject_class = AlertingObject

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> Any:
        wrapped = super().wrap_bio(incoming, outgoing, *args, **named)
        assert isinstance(wrapped, AlertingObject)
        wrapped.incoming, wrapped.outgoing = incoming, outgoing
        return wrapped
