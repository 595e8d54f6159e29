"""How a broker shows ZooKeeper who it is: digest authentication, and TLS with PEM files."""

import base64
import hashlib
import ssl

from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.server.zookeeper.protocol import Acl


def credentials(config: Config) -> tuple[str, bytes] | None:
    """`ottla.zookeeper.auth=digest:USER:PASSWORD`."""
    text = config.ottla_zookeeper_auth
    if not text:
        return None
    scheme, colon, secret = text.partition(":")
    if scheme != "digest" or not colon or ":" not in secret:
        raise InvalidConfig("ottla.zookeeper.auth is not of the form digest:USER:PASSWORD")
    return scheme, secret.encode()


def acl(config: Config) -> Acl:
    """With `zookeeper.set.acl` only whoever has the same credentials gets at what we write."""
    known = credentials(config)
    if not config.zookeeper_set_acl:
        if config.authorizer_class_name:
            raise InvalidConfig(
                "authorizer.class.name is set, and everybody who reaches ZooKeeper could change users and rules there: "
                "set zookeeper.set.acl=true and ottla.zookeeper.auth=digest:USER:PASSWORD"
            )
        return Acl()
    if known is None:
        raise InvalidConfig("zookeeper.set.acl needs ottla.zookeeper.auth")
    user = known[1].decode().partition(":")[0]
    # SHA-1 is what ZooKeeper's digest scheme is made of.
    digest = base64.b64encode(hashlib.sha1(known[1], usedforsecurity=False).digest()).decode()
    return Acl("digest", f"{user}:{digest}")


def tls(config: Config) -> ssl.SSLContext | None:
    if not config.zookeeper_ssl_client_enable:
        return None
    context = ssl.create_default_context(cafile=config.zookeeper_ssl_truststore_location)
    if config.zookeeper_ssl_keystore_location:
        context.load_cert_chain(config.zookeeper_ssl_keystore_location)
    return context
