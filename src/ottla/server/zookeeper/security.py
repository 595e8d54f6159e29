"""How a broker shows ZooKeeper who it is: digest authentication or SASL (DIGEST-MD5), and TLS with PEM files."""

import base64
import hashlib
import ssl

from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.server.followed import FollowedContext
from ottla.server.tls import TlsSettings, load_identity, load_trust
from ottla.server.zookeeper.protocol import Acl
from ottla.server.zookeeper.session import SASL

DIGEST = "digest"


def credentials(config: Config) -> tuple[str, bytes] | None:
    """`ottla.zookeeper.auth=digest:USER:PASSWORD`, or `sasl:USER:PASSWORD`."""
    text = config.ottla_zookeeper_auth
    if not text:
        return None
    scheme, colon, secret = text.partition(":")
    if scheme not in (DIGEST, SASL) or not colon or ":" not in secret:
        raise InvalidConfig(
            "ottla.zookeeper.auth is not of the form digest:USER:PASSWORD or sasl:USER:PASSWORD"
        )
    return scheme, secret.encode()


def acl(config: Config) -> Acl:
    """With `zookeeper.set.acl` nodes that we write are open only to clients with the same credentials."""
    known = credentials(config)
    if not config.zookeeper_set_acl:
        if config.authorizer_class_name:
            raise InvalidConfig(
                "authorizer.class.name is set, and everybody who reaches ZooKeeper could change users and rules there: "
                "set zookeeper.set.acl=true and ottla.zookeeper.auth=sasl:USER:PASSWORD or digest:USER:PASSWORD"
            )
        return Acl()
    if known is None:
        raise InvalidConfig("zookeeper.set.acl needs ottla.zookeeper.auth")
    scheme, secret = known
    user = secret.decode().partition(":")[0]
    if scheme == SASL:
        return Acl(SASL, user)
    # SHA-1 is what ZooKeeper's digest scheme is made of.
    digest = base64.b64encode(hashlib.sha1(secret, usedforsecurity=False).digest()).decode()
    return Acl(DIGEST, f"{user}:{digest}")


def tls(config: Config) -> FollowedContext | None:
    if not config.zookeeper_ssl_client_enable:
        return None
    stores = TlsSettings(
        truststore_location=config.zookeeper_ssl_truststore_location or "",
        keystore_location=config.zookeeper_ssl_keystore_location or "",
    )
    return FollowedContext("zookeeper.ssl", stores.files(), lambda: _context(stores))


def _context(stores: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if stores.truststore_location:
        load_trust(context, stores)
    else:
        context.load_default_certs()
    if stores.keystore_location:
        load_identity(context, stores)
    return context
