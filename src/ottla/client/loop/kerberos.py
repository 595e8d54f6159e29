"""The client's half of SASL GSSAPI (RFC 4752), with the Kerberos library of the extra `kerberos`.

The library asks the KDC for tickets and waits for its answer: a step is for a thread, never for an event loop.
"""

import importlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ottla.client.errors import ConnectionLost, SettingError
from ottla.client.settings import KerberosLogin
from ottla.errors import OttlaError, SaslAuthenticationFailed

NO_LAYER = 1
_KDC_UNREACHABLE = -1765328228 & 0xFFFFFFFF  # KRB5_KDC_UNREACH


def gssapi(login: KerberosLogin, host: str) -> Generator[bytes, bytes, None]:
    """To the service `login.service` of `host`, with the keytab's keys or the tickets of the user's cache."""
    library = _library()
    try:
        yield from _exchange(library, login, host)
    except library.exceptions.GSSError as error:
        raise _refusal(error, f"{login.service}/{host}") from error


def _exchange(library: Any, login: KerberosLogin, host: str) -> Generator[bytes, bytes, None]:
    service = library.Name(f"{login.service}@{host}", library.NameType.hostbased_service)
    context = library.SecurityContext(
        name=service,
        creds=_credentials(library, login),
        mech=library.MechType.kerberos,
        usage="initiate",
        flags=library.RequirementFlag.mutual_authentication,
    )
    context.__DEFER_STEP_ERRORS__ = False  # else the error comes with the call after the one that failed
    token = context.step()
    while not context.complete:
        token = context.step((yield token))
    offer = context.unwrap((yield token or b"")).message
    if len(offer) != 4 or not offer[0] & NO_LAYER:
        raise SaslAuthenticationFailed(
            "the broker asks for a security layer of Kerberos, which Kafka's protocol has not"
        )
    # Our layer, the longest message in it (there is none), and nobody else to act as.
    yield context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message


def _credentials(library: Any, login: KerberosLogin) -> Any:
    """None is the default of the library: the user's cache of tickets."""
    principal = login.principal
    name = library.Name(principal, library.NameType.kerberos_principal) if principal else None
    if login.keytab is None:
        return None if name is None else library.Credentials(name=name, usage="initiate")
    if not Path(login.keytab).is_file():
        raise SettingError(f"the keytab {login.keytab} is not a file")
    # Tickets stay in memory for the connections that follow; the library renews them.
    store = {"client_keytab": f"FILE:{login.keytab}", "ccache": f"MEMORY:ottla-{principal}-{login.keytab}"}
    return library.Credentials(name=name, usage="initiate", store=store)


def _library() -> Any:
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise SettingError(
            "sasl.mechanism GSSAPI needs the extra `kerberos` (pip install 'ottla[kerberos]') "
            f"and the Kerberos libraries (Debian: libkrb5-dev): {error}"
        ) from error


def _refusal(error: Any, service: str) -> OttlaError:
    """An unreachable KDC may be back soon; without a ticket there is no use in trying again."""
    if error.min_code & 0xFFFFFFFF == _KDC_UNREACHABLE:
        return ConnectionLost(f"no Kerberos ticket for {service}: {error}")
    return SaslAuthenticationFailed(f"no Kerberos login at {service}: {error}")
