"""What a listener asks of those who connect: a TLS handshake, a login, both; and whom it takes them for."""

import base64
import logging
import os
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.broker.authentication import Login
from ottla.config.listeners import ListenerSettings
from ottla.errors import InvalidConfig
from ottla.metadata.image import Image
from ottla.security import plain, scram
from ottla.security.administration import SCRAM_NAMES
from ottla.security.mechanisms import Exchange, user_principal
from ottla.security.principals import MappingRules
from ottla.server.tls import TlsSettings, server_context

logger = logging.getLogger("ottla.server")

LOGIN_BYTES_MAX = 512 << 10  # sasl.server.max.receive.size
SESSION_MS = "connections.max.reauth.ms"
FAILURE_DELAY_MS = 100  # connection.failed.authentication.delay.ms
CALLBACKS = "sasl.server.callback.handler.class"
# What Kafka needs to be told to verify tokens; Ottla does so without being told.
KAFKAS_CALLBACKS = {
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
}


class Gate:
    """Of one listener that is not PLAINTEXT."""

    def __init__(self, settings: ListenerSettings, image: Image) -> None:
        self._settings = settings
        self.context = self._new_context()
        self.login = _login(settings, image) if settings.has_sasl else None
        self.login_bytes_max = settings.number("sasl.server.max.receive.size", LOGIN_BYTES_MAX)
        self._rules = MappingRules(settings.get("ssl.principal.mapping.rules"))
        self._seen_files = self._files()

    @property
    def has_tls(self) -> bool:
        return self.context is not None

    def current_context(self) -> ssl.SSLContext:
        assert self.context is not None
        return self.context

    def principal(self, ssl_object: Any) -> str:
        """Whom the client's certificate stands for. Raises NoPrincipal if no rule matches it."""
        certificate = ssl_object.getpeercert() if ssl_object is not None else None
        return self._rules.principal(certificate.get("subject") if certificate else None)

    def maybe_reload(self) -> None:
        """New connections get the certificates that are in the files now; a bad file changes nothing."""
        files = self._files()
        if files == self._seen_files:
            return
        self._seen_files = files
        try:
            self.context = self._new_context()
        except InvalidConfig as error:
            logger.error("listener %s keeps its certificates: %s", self._settings.name, error)
        else:
            logger.info("listener %s has new certificates", self._settings.name)

    def _new_context(self) -> ssl.SSLContext | None:
        if not self._settings.has_tls:
            return None
        try:
            return server_context(TlsSettings.of(self._settings.tls()))
        except InvalidConfig as error:
            raise InvalidConfig(f"listener {self._settings.name}: {error.message}") from error

    def _files(self) -> list[tuple[str, float, int]]:
        seen = []
        for path in TlsSettings.of(self._settings.tls()).files() if self._settings.has_tls else ():
            try:
                status = path.stat()
            except OSError:
                continue  # it is being replaced
            seen.append((str(path), status.st_mtime, status.st_ino))
        return seen


def _login(settings: ListenerSettings, image: Image) -> Login:
    mechanisms = {name: _mechanism(name, settings, image) for name in settings.mechanisms()}
    if not mechanisms:
        raise InvalidConfig(
            f"listener {settings.name} speaks {settings.protocol} and has no sasl.enabled.mechanisms"
        )
    session_ms_max = settings.number(SESSION_MS, 0)
    return Login(
        mechanisms,
        session_ms_max,
        {name: settings.number(f"{name.lower()}.{SESSION_MS}", session_ms_max) for name in mechanisms},
        settings.number("connection.failed.authentication.delay.ms", FAILURE_DELAY_MS),
    )


def _mechanism(name: str, settings: ListenerSettings, image: Image) -> Callable[[], Exchange]:
    _refuse_callbacks(name, settings)
    if name == "PLAIN":
        return _plain(settings)
    if name in scram.MECHANISMS:
        return partial(_scram, name, image)
    if name == "OAUTHBEARER":
        return _oauthbearer(settings)
    offered = ", ".join(("PLAIN", *scram.MECHANISMS, "OAUTHBEARER"))
    raise InvalidConfig(
        f"listener {settings.name}: the SASL mechanism {name} (sasl.enabled.mechanisms) is not offered; "
        f"there are {offered}"
    )


def _refuse_callbacks(mechanism: str, settings: ListenerSettings) -> None:
    """A class of one's own would decide who gets in; without it others might."""
    for setting in (f"{mechanism.lower()}.{CALLBACKS}", CALLBACKS):
        if settings.get(setting) not in ("", KAFKAS_CALLBACKS.get(mechanism, "")):
            raise InvalidConfig(
                f"listener {settings.name}: {setting} cannot be honoured: Ottla runs no callback handlers; "
                "remove the setting if you do not need it"
            )


def _plain(settings: ListenerSettings) -> Callable[[], Exchange]:
    jaas = settings.jaas("PLAIN")
    if jaas is None or not jaas.users:
        raise InvalidConfig(
            f"listener {settings.name} offers PLAIN and knows no users: set "
            f"listener.name.{settings.name.lower()}.plain.sasl.jaas.config to "
            '`...PlainLoginModule required user_NAME="PASSWORD";`'
        )
    check = plain.users_check(jaas.users)
    return lambda: plain.plain(check)


def _oauthbearer(settings: ListenerSettings) -> Callable[[], Exchange]:
    from ottla.security import oauth
    from ottla.server.jwks import KeySet

    location = settings.get("sasl.oauthbearer.jwks.endpoint.url")
    if not location:
        raise InvalidConfig(
            f"listener {settings.name} offers OAUTHBEARER and knows no keys: set sasl.oauthbearer.jwks.endpoint.url"
        )
    audiences = settings.get("sasl.oauthbearer.expected.audience")
    expected = oauth.Expected(
        tuple(each.strip() for each in audiences.split(",") if each.strip()),
        settings.get("sasl.oauthbearer.expected.issuer"),
        settings.number("sasl.oauthbearer.clock.skew.seconds", 30),
        settings.get("sasl.oauthbearer.sub.claim.name", "sub"),
    )
    keys = KeySet(location)
    return lambda: oauth.oauthbearer(keys.key, expected, time.time)


def _scram(mechanism: str, image: Image) -> Exchange:
    number = next(each for each, name in SCRAM_NAMES.items() if name == mechanism)

    def lookup(name: str, is_token: bool) -> scram.Found | None:
        user = None if is_token else image.security.scram.get((name, number))
        if user is None:
            return None
        credential = scram.Credential(user.salt, user.stored_key, user.server_key, user.iterations)
        return scram.Found(credential, user_principal(name))

    nonce = base64.b64encode(os.urandom(24)).decode()
    return scram.scram(scram.MECHANISMS[mechanism], lookup, nonce)
