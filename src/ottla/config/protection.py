"""Settings that promise protection which this broker does not offer: a refusal to start, never a warning.

Each entry of `_PROMISES` leaves this module in the change that keeps its promise.
"""

from collections.abc import Collection, Iterator, Mapping

from ottla import errors
from ottla.frozen import frozen

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",  # what Kafka called it before 4.0
)


@frozen
class _Promise:
    """A setting, the values of it that promise nothing, and what is missing here."""

    name: str
    missing: str
    harmless: tuple[str, ...] = ("",)


_PROMISES: dict[str, _Promise] = {
    promise.name: promise
    for promise in (
        _Promise("client.quota.callback.class", "quotas are those of AlterClientQuotas alone"),
        _Promise("quota.producer.default", "set the default quota of client ids (`ottla quotas set`)"),
        _Promise("quota.consumer.default", "set the default quota of client ids (`ottla quotas set`)"),
        _Promise(
            "principal.builder.class",
            "a client's name is that of its login or its certificate",
            ("", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        ),
        _Promise("create.topic.policy.class.name", "there are no policies for new topics"),
        _Promise("alter.config.policy.class.name", "there are no policies for settings"),
    )
}


def check_protection(
    static: Mapping[str, str], listeners: Collection[str], protocol_map: str, inter_broker: str | None
) -> None:
    """Refuse a configuration that promises protection; the error names every setting that does."""
    refusals = [
        *_refused_listeners(static, listeners, protocol_map, inter_broker),
        *_without_authorizer(static),
        *(why for name, value in static.items() if (why := broken_promise(name, value)) is not None),
    ]
    if refusals:
        raise errors.InvalidConfig("; ".join(refusals))


def _without_authorizer(static: Mapping[str, str]) -> Iterator[str]:
    """Rules that nobody would follow."""
    if static.get("authorizer.class.name"):
        return
    for name, harmless in (("super.users", ""), ("allow.everyone.if.no.acl.found", "true")):
        if static.get(name, "").strip().lower() not in ("", harmless):
            yield (
                f"{name} is set, and without authorizer.class.name every client may do everything; "
                f"set authorizer.class.name={AUTHORIZERS[0]}"
            )


def broken_promise(name: str, value: str) -> str | None:
    """Why this value cannot be accepted; None when it promises nothing."""
    promise = _PROMISES.get(name)
    if promise is None or value.strip() in promise.harmless:
        return None
    # Without the value, which may be a secret.
    return f"{name} cannot be honoured: {promise.missing}; remove the setting if you do not need it"


def protocols_of(protocol_map: str) -> dict[str, str]:
    """listener.security.protocol.map: the protocol of each listener."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in protocol_map.split(","))):
        name, colon, protocol = pair.rpartition(":")
        if not colon or protocol.strip().upper() not in PROTOCOLS:
            raise errors.InvalidConfig(
                f"listener.security.protocol.map: {pair} is not of the form LISTENER:PROTOCOL "
                f"with one of {', '.join(PROTOCOLS)}"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _refused_listeners(
    static: Mapping[str, str], listeners: Collection[str], protocol_map: str, inter_broker: str | None
) -> Iterator[str]:
    protocols = protocols_of(protocol_map)
    if protocol_map == DEFAULT_PROTOCOL_MAP:
        # As in Apache Kafka: without a map of its own, a controller's listener is plain text.
        for name in static.get("controller.listener.names", "").split(","):
            protocols.setdefault(name.strip().upper(), "PLAINTEXT")
    for listener in listeners:
        name, separator, _ = listener.upper().partition("://")
        if not separator:
            continue  # refused for its form when the broker listens
        protocol = protocols.get(name)
        if protocol is None:
            yield (
                f"listeners: no protocol is defined for {listener}; "
                f"add {name}:PLAINTEXT or another protocol to listener.security.protocol.map"
            )
    names = {listener.partition("://")[0].strip() for listener in listeners}
    if inter_broker and inter_broker not in names:
        yield f"inter.broker.listener.name={inter_broker} is not in listeners ({','.join(listeners)})"
