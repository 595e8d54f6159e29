"""How brokers talk to each other: over the listener that is named for it, encrypted and authenticated if it is."""

import ssl

from ottla.client.settings import Settings
from ottla.config.jaas import Jaas
from ottla.config.listeners import ListenerSettings, inter_broker_listener, listener_settings
from ottla.config.security import principals_of
from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.frozen import frozen
from ottla.security.principals import ANONYMOUS
from ottla.server.followed import FollowedContext
from ottla.server.tls import TlsSettings, client_context

SETUP_MS_MAX = 5000


@frozen
class Link:
    """`listener` None is everybody's first."""

    listener: str | None
    settings: Settings
    tls: FollowedContext | None = None

    def current_tls(self) -> ssl.SSLContext | None:
        """With the certificates that are in the files now."""
        return None if self.tls is None else self.tls.current()


def link_of(config: Config) -> Link:
    name = inter_broker_listener(config)
    timeout_ms = min(config.controller_socket_timeout_ms, SETUP_MS_MAX)
    client_id = f"broker-{config.node_id}"
    settings = listener_settings(config, name)
    _check_rights(config, settings)
    listener = config.inter_broker_listener_name or (name if config.security_inter_broker_protocol else None)
    if settings.protocol == "PLAINTEXT":
        plain = Settings(client_id=client_id, socket_connection_setup_timeout_ms=timeout_ms)
        return Link(listener, plain)
    tls = None
    if settings.has_tls:
        algorithm = settings.get("ssl.endpoint.identification.algorithm", "https")
        stores = TlsSettings.of(settings.tls())
        tls = FollowedContext(
            f"the link to other brokers over {name}",
            stores.files(),
            lambda: client_context(stores, check_hostname=bool(algorithm)),
        )
    return Link(listener, _client_settings(settings, client_id, timeout_ms), tls)


def _client_settings(listener: ListenerSettings, client_id: str, timeout_ms: int) -> Settings:
    if not listener.has_sasl:
        return Settings(
            client_id=client_id,
            socket_connection_setup_timeout_ms=timeout_ms,
            security_protocol=listener.protocol,
        )
    mechanism = listener.get("sasl.mechanism.inter.broker.protocol", "GSSAPI").upper()
    jaas = listener.jaas(mechanism)
    if mechanism == "GSSAPI":
        return _kerberos_settings(listener, jaas, client_id, timeout_ms)
    if jaas is None or not {"username", "password"} <= jaas.options.keys():
        raise InvalidConfig(
            f"brokers talk to each other over {listener.name} with {mechanism} (sasl.mechanism.inter.broker.protocol): "
            f"listener.name.{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config needs username and password"
        )
    return Settings(
        client_id=client_id,
        socket_connection_setup_timeout_ms=timeout_ms,
        security_protocol=listener.protocol,
        sasl_mechanism=mechanism,
        sasl_username=jaas.options["username"],
        sasl_password=jaas.options["password"],
    )


def _kerberos_settings(
    listener: ListenerSettings, jaas: Jaas | None, client_id: str, timeout_ms: int
) -> Settings:
    """A broker logs in at the others as the principal that it has itself."""
    options = jaas.options if jaas is not None else {}
    if not {"keyTab", "principal"} <= options.keys():
        raise InvalidConfig(
            f"brokers talk to each other over {listener.name} with GSSAPI (sasl.mechanism.inter.broker.protocol): "
            f"listener.name.{listener.name.lower()}.gssapi.sasl.jaas.config needs keyTab and principal"
        )
    service = listener.get("sasl.kerberos.service.name") or options.get("serviceName")
    return Settings(
        client_id=client_id,
        socket_connection_setup_timeout_ms=timeout_ms,
        security_protocol=listener.protocol,
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name=service or options["principal"].partition("/")[0],
        sasl_kerberos_principal=options["principal"],
        sasl_kerberos_keytab=options["keyTab"],
    )


def _check_rights(config: Config, listener: ListenerSettings) -> None:
    """With an authorizer, an anonymous broker could not follow any leader."""
    super_users = principals_of(config.super_users)
    if config.authorizer_class_name and listener.protocol == "PLAINTEXT" and ANONYMOUS not in super_users:
        raise InvalidConfig(
            f"brokers talk to each other over {listener.name}, which is PLAINTEXT: with an authorizer they would be "
            f"{ANONYMOUS} and could not replicate. Set inter.broker.listener.name to a listener with SSL or SASL, "
            f"or add {ANONYMOUS} to super.users"
        )
