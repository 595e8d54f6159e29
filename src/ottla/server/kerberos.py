"""Kerberos for listeners: the system's library behind the port of `security/gssapi.py`, with the keys of a keytab.

To accept a ticket the library needs only the keytab, no connection to the KDC.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.config.listeners import ListenerSettings
from ottla.errors import InvalidConfig
from ottla.security.gssapi import Context, GssFailed, gssapi
from ottla.security.kerberos_names import SETTING, LocalNames, NoLocalName, Principal
from ottla.security.mechanisms import Exchange


def kerberos(settings: ListenerSettings) -> Callable[[], Exchange]:
    """How a listener begins a login with GSSAPI."""
    keytab, principal = _identity(settings)
    library = _library()
    credentials = _Credentials(library, keytab, principal)
    names = LocalNames(settings.get(SETTING), default_realm(library))
    return lambda: gssapi(credentials.accept, names)


def default_realm(library: Any) -> str:
    """Of krb5.conf; empty if there is none, as in Kafka."""
    try:
        anybody = library.Name("anybody", library.NameType.user).canonicalize(library.MechType.kerberos)
    except library.exceptions.GSSError:
        return ""
    return str(anybody).partition("@")[2]


class _Credentials:
    """The keys are read from the keytab again for each login, so that a new keytab counts at once."""

    def __init__(self, library: Any, keytab: str, principal: str) -> None:
        self._library = library
        self._name = library.Name(principal, library.NameType.kerberos_principal)
        self._store = {"keytab": f"FILE:{keytab}"}
        try:
            self.accept()
        except GssFailed as error:
            raise InvalidConfig(f"keyTab={keytab} has no usable keys of {principal}: {error}") from None

    def accept(self) -> Context:
        library = self._library
        try:
            credentials = library.Credentials(name=self._name, usage="accept", store=self._store)
            context = library.SecurityContext(creds=credentials, usage="accept")
        except library.exceptions.GSSError as error:
            raise GssFailed(str(error)) from None
        context.__DEFER_STEP_ERRORS__ = False  # else the error comes with the call after the one that failed
        return _Context(library, context)


class _Context:
    def __init__(self, library: Any, context: Any) -> None:
        self._error: type[Exception] = library.exceptions.GSSError
        self._context = context

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def client(self) -> str:
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        return self._call(self._context.step, token) or b""

    def wrap(self, message: bytes) -> bytes:
        wrapped: bytes = self._call(self._context.wrap, message, False).message
        return wrapped

    def unwrap(self, message: bytes) -> bytes:
        plain: bytes = self._call(self._context.unwrap, message).message
        return plain

    def _call(self, method: Callable[..., Any], *arguments: object) -> Any:
        try:
            return method(*arguments)
        except self._error as error:
            raise GssFailed(str(error)) from None


def _library() -> Any:
    """Not imported at the top: it is an extra, and only listeners with GSSAPI need it."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise InvalidConfig(
            "GSSAPI needs the extra `kerberos` (pip install 'ottla[kerberos]') and the Kerberos libraries "
            f"(Debian: libkrb5-dev): {error}"
        ) from None


def _identity(settings: ListenerSettings) -> tuple[str, str]:
    """The keytab and the principal, as the JAAS entry of Java's Krb5LoginModule has them."""
    setting = f"listener.name.{settings.name.lower()}.gssapi.sasl.jaas.config"
    jaas = settings.jaas("GSSAPI")
    options = jaas.options if jaas is not None else {}
    keytab, principal = options.get("keyTab", ""), options.get("principal", "")
    if not keytab or not principal:
        raise InvalidConfig(
            f"listener {settings.name} offers GSSAPI and has no keys: set {setting} to "
            "`com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            'keyTab="FILE" principal="SERVICE/HOST@REALM";`'
        )
    if not _has_host(principal):
        raise InvalidConfig(f"{setting}: principal={principal} is not of the form service/host@REALM")
    keytab = keytab.removeprefix("FILE:").removeprefix("file:")
    if not Path(keytab).is_file():
        raise InvalidConfig(f"{setting}: keyTab={keytab} is not a file")
    return keytab, principal


def _has_host(principal: str) -> bool:
    try:
        return bool(Principal.parse(principal).host)
    except NoLocalName:
        return False
