"""What a listener asks of those who connect: a TLS handshake, a login, both; and whom it takes them for."""

import base64
import logging
import os
import ssl
import time
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from ottla.broker.requests.authentication import Login
from ottla.config.listeners import ListenerSettings
from ottla.errors import InvalidConfig
from ottla.metadata.image import Image
from ottla.metadata.records import ScramSet
from ottla.security import plain, scram
from ottla.security.administration import SCRAM_NAMES
from ottla.security.mechanisms import Exchange, user_principal
from ottla.security.principals import MappingRules
from ottla.server.followed import FollowedContext
from ottla.server.plugins import Threads, load, method
from ottla.server.tls import TlsSettings, server_context

if TYPE_CHECKING:
    from ottla.security.tokens import Tokens

logger = logging.getLogger("ottla.server")

LOGIN_BYTES_MAX = 512 << 10  # sasl.server.max.receive.size
SESSION_MS = "connections.max.reauth.ms"
FAILURE_DELAY_MS = 100  # connection.failed.authentication.delay.ms
STORED_USERS = "ottla.plain.scram.users"  # whether PLAIN takes the users of SCRAM too
CALLBACKS = "sasl.server.callback.handler.class"
METHODS = {"PLAIN": "authenticate", "OAUTHBEARER": "validate"}  # of a class of one's own
# What Kafka needs to be told to verify tokens; Ottla does so without being told.
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
KAFKAS_CALLBACKS = {"OAUTHBEARER": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"}
# Kafka's class for tokens that nobody has signed: here too it is only used where it is named.
UNSECURED = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_UNSECURED_NAME, _UNSECURED_SKEW = (
    "unsecuredValidatorPrincipalClaimName",
    "unsecuredValidatorAllowableClockSkewMs",
)


class Gate:
    """Of one listener that is not PLAINTEXT."""

    def __init__(self, settings: ListenerSettings, image: Image, tokens: "Tokens | None" = None) -> None:
        self._tls = _followed(settings) if settings.has_tls else None
        self.login = _login(settings, image, tokens) if settings.has_sasl else None
        self.login_bytes_max = settings.number("sasl.server.max.receive.size", LOGIN_BYTES_MAX)
        self._rules = MappingRules(settings.get("ssl.principal.mapping.rules"))

    @property
    def has_tls(self) -> bool:
        return self._tls is not None

    def current_context(self) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls.context

    def principal(self, ssl_object: Any) -> str:
        """Whom the client's certificate stands for. Raises NoPrincipal if no rule matches it."""
        certificate = ssl_object.getpeercert() if ssl_object is not None else None
        return self._rules.principal(certificate.get("subject") if certificate else None)

    def maybe_reload(self) -> None:
        """New connections get the certificates that are in the files now."""
        if self._tls is not None:
            self._tls.maybe_reload()


def _followed(settings: ListenerSettings) -> FollowedContext:
    tls = TlsSettings.of(settings.tls())
    return FollowedContext(f"listener {settings.name}", tls.files(), lambda: server_context(tls))


def _login(settings: ListenerSettings, image: Image, tokens: "Tokens | None") -> Login:
    mechanisms = {name: _mechanism(name, settings, image, tokens) for name in settings.mechanisms()}
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
        Threads().run,
    )


def _mechanism(
    name: str, settings: ListenerSettings, image: Image, tokens: "Tokens | None"
) -> Callable[[], Exchange]:
    _callbacks(name, settings)
    if name == "PLAIN":
        return _plain(settings, image)
    if name in scram.MECHANISMS:
        return partial(_scram, name, image, tokens)
    if name == "OAUTHBEARER":
        return _oauthbearer(settings)
    if name == "GSSAPI":
        return _gssapi(settings)
    offered = ", ".join(("PLAIN", *scram.MECHANISMS, "OAUTHBEARER", "GSSAPI"))
    raise InvalidConfig(
        f"listener {settings.name}: the SASL mechanism {name} (sasl.enabled.mechanisms) is not offered; "
        f"there are {offered}"
    )


def _callbacks(mechanism: str, settings: ListenerSettings) -> tuple[str, str]:
    """The setting, and the class of one's own that it names; empty if there is none."""
    for setting in (f"{mechanism.lower()}.{CALLBACKS}", CALLBACKS):
        name = settings.get(setting)
        if name and name != KAFKAS_CALLBACKS.get(mechanism, ""):
            full_name = f"listener.name.{settings.name.lower()}.{setting}"
            if mechanism not in METHODS:
                raise InvalidConfig(
                    f"{full_name} cannot be honoured: callbacks are for {' and '.join(METHODS)}; "
                    "remove the setting if you do not need it"
                )
            return full_name, name
    return "", ""


def _own(mechanism: str, settings: ListenerSettings) -> Callable[..., Any] | None:
    """The method of one's own that decides who gets in, or None."""
    setting, name = _callbacks(mechanism, settings)
    if not name:
        return None
    return method(load(setting, name, settings.effective()), METHODS[mechanism], setting)


def _plain(settings: ListenerSettings, image: Image) -> Callable[[], Exchange]:
    own = _own("PLAIN", settings)
    if own is not None:
        return lambda: plain.plain_aside(own)
    jaas = settings.jaas("PLAIN")
    if _takes_stored_users(settings):
        listed, stored = plain.users_check(jaas.users if jaas else {}), _stored_users(image)
        return lambda: plain.plain_or_stored(listed, stored)
    if jaas is None or not jaas.users:
        raise InvalidConfig(
            f"listener {settings.name} offers PLAIN and knows no users: set "
            f"listener.name.{settings.name.lower()}.plain.sasl.jaas.config to "
            '`...PlainLoginModule required user_NAME="PASSWORD";`, '
            f"or, with TLS, listener.name.{settings.name.lower()}.{STORED_USERS}=true for the users of SCRAM"
        )
    check = plain.users_check(jaas.users)
    return lambda: plain.plain(check)


def _takes_stored_users(settings: ListenerSettings) -> bool:
    match settings.get(STORED_USERS, "false").strip().lower():
        case "false":
            return False
        case "true" if settings.has_tls:
            return True
        case "true":
            raise InvalidConfig(
                f"listener {settings.name}: {STORED_USERS} needs TLS, or passwords could be read on their way; "
                "use SASL_SSL"
            )
        case text:
            raise InvalidConfig(f"listener {settings.name}: {STORED_USERS}={text} is not true or false")


def _stored_users(image: Image) -> plain.StoredUsers:
    def lookup(name: str) -> plain.Stored | None:
        for number, mechanism in SCRAM_NAMES.items():
            user = image.security.scram.get((name, number))
            if user is not None:
                return plain.Stored(name, scram.MECHANISMS[mechanism], _credential(user))
        return None

    return plain.StoredUsers(lookup, os.urandom(32), Lock())


def _oauthbearer(settings: ListenerSettings) -> Callable[[], Exchange]:
    from ottla.security import oauth
    from ottla.server.jwks import KeySet

    if _callbacks("OAUTHBEARER", settings)[1] == UNSECURED:
        return _unsecured(settings)
    own = _own("OAUTHBEARER", settings)
    if own is not None:
        return lambda: oauth.oauthbearer_aside(own)
    location = settings.get("sasl.oauthbearer.jwks.endpoint.url")
    if not location:
        raise InvalidConfig(
            f"listener {settings.name} offers OAUTHBEARER and knows no keys: set sasl.oauthbearer.jwks.endpoint.url"
        )
    audiences = settings.get("sasl.oauthbearer.expected.audience")
    expected = oauth.Expected(
        tuple(audience.strip() for audience in audiences.split(",") if audience.strip()),
        settings.get("sasl.oauthbearer.expected.issuer"),
        settings.number("sasl.oauthbearer.clock.skew.seconds", 30),
        settings.get("sasl.oauthbearer.sub.claim.name", "sub"),
    )
    keys = KeySet(location)
    return lambda: oauth.oauthbearer(keys.key, expected, time.time)


def _unsecured(settings: ListenerSettings) -> Callable[[], Exchange]:
    from ottla.security import oauth

    jaas = settings.jaas("OAUTHBEARER")
    options = {} if jaas is None else jaas.options
    unknown = {name for name in options if name.startswith("unsecuredValidator")} - {
        _UNSECURED_NAME,
        _UNSECURED_SKEW,
    }
    skew_ms = options.get(_UNSECURED_SKEW, "0")
    if unknown or not skew_ms.isdecimal():
        wrong = ", ".join(sorted(unknown)) or _UNSECURED_SKEW
        raise InvalidConfig(
            f"listener {settings.name}: {wrong} in the JAAS entry of OAUTHBEARER "
            f"cannot be honoured; there are {_UNSECURED_NAME} and {_UNSECURED_SKEW} (milliseconds)"
        )
    logger.warning(
        "listener %s takes tokens that nobody has signed: every client may say who it is", settings.name
    )
    expected = oauth.Expected((), "", int(skew_ms) // 1000, options.get(_UNSECURED_NAME, "sub"))
    return lambda: oauth.oauthbearer(None, expected, time.time)


def _gssapi(settings: ListenerSettings) -> Callable[[], Exchange]:
    from ottla.server.kerberos import kerberos  # needs an extra

    return kerberos(settings)


def _scram(mechanism: str, image: Image, tokens: "Tokens | None") -> Exchange:
    number = next(digest_number for digest_number, name in SCRAM_NAMES.items() if name == mechanism)

    def lookup(name: str, is_token: bool) -> scram.Found | None:
        if is_token:
            return None if tokens is None else tokens.login(scram.MECHANISMS[mechanism], name)
        user = image.security.scram.get((name, number))
        if user is None:
            return None
        return scram.Found(_credential(user), user_principal(name))

    nonce = base64.b64encode(os.urandom(24)).decode()
    return scram.scram(scram.MECHANISMS[mechanism], lookup, nonce)


def _credential(user: ScramSet) -> scram.Credential:
    return scram.Credential(user.salt, user.stored_key, user.server_key, user.iterations)
