"""What a configuration leaves open to other machines, in sentences: for `ottla doctor`."""

from collections.abc import Iterator

from ottla.config.listeners import ListenerSettings, listener_settings
from ottla.config.security import principals_of
from ottla.config.settings import Config

_LOOPBACK = ("localhost:", "127.", "[::1]:")
_TOKEN_CHECKS = (
    "oauthbearer.sasl.server.callback.handler.class",
    "sasl.server.callback.handler.class",
)
_ANYBODY = ("User:ANONYMOUS", "User:*")


def exposures(config: Config, *, is_whole: bool = True) -> Iterator[str]:
    """`is_whole` is False for settings that a broker has shown: those of TLS and SASL are not among them."""
    outside = [text for text in config.listeners if not text.partition("://")[2].startswith(_LOOPBACK)]
    for text in outside:
        yield from _listener(text, listener_settings(config, text.partition("://")[0]), is_whole)
    if outside:
        yield from _rights(config)
    if _is_elsewhere(config.zookeeper_connect) and not config.zookeeper_set_acl:
        yield (
            "zookeeper.set.acl is not set: everybody who reaches ZooKeeper may change topics, users and rules; "
            "set it with ottla.zookeeper.auth=sasl:USER:PASSWORD or digest:USER:PASSWORD"
        )


def _is_elsewhere(zookeeper: str) -> bool:
    hosts = zookeeper.partition("/")[0].split(",")
    return any(host and not host.strip().startswith(_LOOPBACK) for host in hosts)


def _listener(text: str, listener: ListenerSettings, is_whole: bool) -> Iterator[str]:
    if is_whole and any("Unsecured" in listener.get(setting) for setting in _TOKEN_CHECKS):
        yield f"{text}: tokens of OAUTHBEARER need no signature: everybody gets in, under any name"
    if listener.protocol == "PLAINTEXT":
        yield f"{text}: everybody who reaches this address gets in, and everybody on the way reads along"
    elif listener.protocol == "SASL_PLAINTEXT":
        passwords = is_whole and "PLAIN" in listener.mechanisms()
        yield (
            f"{text}: records travel unencrypted{', and so do the passwords of PLAIN' if passwords else ''}; "
            "use SASL_SSL"
        )
    elif listener.protocol == "SSL" and is_whole:
        asked = listener.tls().get("client.auth", "none").lower()
        if asked != "required":
            yield (
                f"{text}: ssl.client.auth={asked}: who shows no certificate gets in as User:ANONYMOUS; "
                "set it to required, or use SASL_SSL"
            )


def _rights(config: Config) -> Iterator[str]:
    if not config.authorizer_class_name:
        yield "no authorizer.class.name: everybody who gets in may read, write and delete everything"
        return
    if config.allow_everyone_if_no_acl_found:
        yield "allow.everyone.if.no.acl.found=true: what no rule names is open to everybody who gets in"
    for user in principals_of(config.super_users):
        if user in _ANYBODY:
            yield f"super.users has {user}: who does not log in may do everything"
