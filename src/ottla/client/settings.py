"""Client settings under Kafka's names, with dots or underscores, checked before anything is sent."""

import dataclasses
import difflib
import logging
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Self

from ottla.client.errors import SettingError
from ottla.client.old_settings import ACKS, OF_THE_OTHER_CLIENT, OLD_VALUES, RENAMED, REPLACED
from ottla.client.unused_settings import ADMIN_REFUSED, REFUSED, WITHOUT_EFFECT, refusal
from ottla.frozen import frozen

log = logging.getLogger("ottla.client")

# Other names that mean the same.
ALIASES = {"partitioner_class": "partitioner"}
PARTITIONERS = {"RoundRobinPartitioner": "round_robin", "DefaultPartitioner": "default"}


@frozen
class KerberosLogin:
    """Without a keytab the tickets of the user's cache count, of `principal` if it is set."""

    service: str
    principal: str | None
    keytab: str | None


@frozen
class Settings:
    """What every client needs: where the brokers are, how to reach them, how long to try."""

    HIDDEN = ("ssl_key_password", "sasl_password", "sasl_jaas_config", "ottla_sasl_oauthbearer_token")

    bootstrap_servers: str = "127.0.0.1:9092"
    client_id: str = "ottla"
    client_rack: str = ""
    security_protocol: str = "PLAINTEXT"
    ssl_ca_location: str | None = None
    ssl_truststore_location: str | None = None
    ssl_truststore_type: str = "PEM"
    ssl_truststore_certificates: str | None = None
    ssl_keystore_location: str | None = None
    ssl_keystore_type: str = "PEM"
    ssl_protocol: str = "TLSv1.3"
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = None
    ssl_endpoint_identification_algorithm: str = "https"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_jaas_config: str | None = None
    sasl_kerberos_service_name: str | None = None
    sasl_kerberos_principal: str | None = None
    sasl_kerberos_keytab: str | None = None
    ottla_sasl_oauthbearer_token: str | None = None
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    socket_connection_setup_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    receive_message_max_bytes: int = 256 * 1024 * 1024
    allow_auto_create_topics: bool = True
    on_retry: Callable[[Any], Any] | None = None

    @classmethod
    def parse(cls, settings: Mapping[str, object], /, **more: object) -> Self:
        """Settings by Kafka's names. An unknown name is an error with the nearest one beside it."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        hints = typing.get_type_hints(cls)
        values: dict[str, Any] = {}
        for name, value in {**settings, **more}.items():
            key = name.replace(".", "_").replace("-", "_")
            key = cls._modern(name, ALIASES.get(key, key))
            value = _modern_value(name, key, value)
            if key == "partitioner" and isinstance(value, str):
                value = PARTITIONERS.get(value.rpartition(".")[2], value)  # Java's class names
            if key in OF_THE_OTHER_CLIENT.get(cls.__name__, ()):
                log.warning("%s has no effect on this kind of client", name)
            elif key in fields:
                values[key] = _convert(name, value, hints[key])
            elif key in WITHOUT_EFFECT:
                log.info("the setting %s has no effect here", name)
            else:
                cls._refuse(name, key, value)
        return cls(**values).checked()

    @classmethod
    def _modern(cls, name: str, key: str) -> str:
        """The name of today, if it is an old one that means the same."""
        if key in REPLACED:
            raise SettingError(f"{name} is not a setting of today's clients: {REPLACED[key]}")
        modern = RENAMED.get(key)
        if modern is None or modern not in {field.name for field in dataclasses.fields(cls)}:
            return key
        log.warning("%s is the old name of %s", name, modern.replace("_", "."))
        return modern

    @classmethod
    def _refuse(cls, name: str, key: str, value: Any) -> None:
        """Raises unless it is one of Kafka's settings at its default, by which nothing changes."""
        refused = REFUSED if issubclass(cls, ProducerSettings) else REFUSED | ADMIN_REFUSED
        if key in refused:
            reason = refusal(key, value, refused)
            if reason is not None:
                raise SettingError(f"{name}={value} cannot be: {reason}")
            return
        near = difflib.get_close_matches(key, [field.name for field in dataclasses.fields(cls)], n=1)
        hint = f"; did you mean {near[0].replace('_', '.')}?" if near else ""
        raise SettingError(f"unknown setting {name}{hint}")

    def checked(self) -> Self:
        """This, or an error that says which value cannot be."""
        self._one_of("security_protocol", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        self._one_of("ssl_protocol", "TLSv1.2", "TLSv1.3")
        self.tls_versions()
        if self.security_protocol.startswith("SASL"):
            self._one_of("sasl_mechanism", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
        if self.on_retry is not None and not callable(self.on_retry):
            raise SettingError("on_retry must be a function that takes the error")
        self.bootstrap()
        return self

    def bootstrap(self) -> list[tuple[str, int]]:
        """Addresses to try first."""
        addresses = [
            _address(server.strip()) for server in self.bootstrap_servers.split(",") if server.strip()
        ]
        if not addresses:
            raise SettingError("bootstrap.servers is empty; give host:port")
        return addresses

    def tls_versions(self) -> list[str]:
        """The lowest and the highest version of TLS, as `ssl.protocol` and `ssl.enabled.protocols` have it."""
        enabled = [protocol.strip() for protocol in self.ssl_enabled_protocols.split(",") if protocol.strip()]
        if not enabled or not set(enabled) <= {"TLSv1.2", "TLSv1.3"}:
            text = self.ssl_enabled_protocols
            raise SettingError(f"ssl.enabled.protocols is {text!r}; there are TLSv1.2 and TLSv1.3")
        if self.ssl_protocol == "TLSv1.2":
            return ["TLSv1.2", "TLSv1.2"]
        return [min(enabled), max(enabled)]

    def credentials(self) -> tuple[str, str]:
        """User and password, from their own settings or from Java's login line."""
        if self.sasl_username is not None and self.sasl_password is not None:
            return self.sasl_username, self.sasl_password
        login = self._login_line()
        if "username" in login and "password" in login:
            return login["username"], login["password"]
        raise SettingError(f"{self.security_protocol} needs sasl.username and sasl.password")

    def bearer_token(self) -> str:
        token = self.ottla_sasl_oauthbearer_token or ""
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise SettingError("sasl.mechanism OAUTHBEARER needs a token in ottla.sasl.oauthbearer.token")
        return token

    def kerberos(self) -> "KerberosLogin":
        """From settings under librdkafka's names, or from Java's login line."""
        login = self._login_line()
        service = self.sasl_kerberos_service_name or login.get("serviceName")
        if not service:
            raise SettingError("sasl.mechanism GSSAPI needs sasl.kerberos.service.name, the brokers' name")
        keytab = self.sasl_kerberos_keytab or login.get("keyTab")
        principal = self.sasl_kerberos_principal or login.get("principal")
        if keytab and not principal:
            raise SettingError(f"the keytab {keytab} needs a principal (sasl.kerberos.principal)")
        return KerberosLogin(service, principal, keytab)

    @property
    def is_token(self) -> bool:
        """Whether user and password are the id and the secret of a delegation token (tokenauth="true")."""
        return self._login_line().get("tokenauth") == "true"

    def _login_line(self) -> dict[str, str]:
        line = self.sasl_jaas_config or ""
        return {
            name: quoted or plain
            for name, quoted, plain in re.findall(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))', line)
        }

    def _one_of(self, key: str, *allowed: str) -> None:
        if getattr(self, key) not in allowed:
            name = key.replace("_", ".")
            raise SettingError(f"{name} is {getattr(self, key)!r}; it must be one of {', '.join(allowed)}")

    def _at_least(self, key: str, least: int) -> None:
        if getattr(self, key) < least:
            raise SettingError(
                f"{key.replace('_', '.')} is {getattr(self, key)}; it must be at least {least}"
            )


@frozen
class ProducerSettings(Settings):
    """How records are gathered, sent and acknowledged."""

    acks: str = "all"
    enable_idempotence: bool | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    batch_size: int = 16_384
    linger_ms: int = 5
    buffer_memory: int = 32 * 1024 * 1024
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    max_in_flight_requests_per_connection: int = 5
    compression_type: str = "none"
    compression_level: int | None = None
    compression_gzip_level: int | None = None
    compression_lz4_level: int | None = None
    compression_zstd_level: int | None = None
    delivery_timeout_ms: int = 120_000
    retries: int = 2_147_483_647
    partitioner: str | Callable[..., int] = "default"
    key_serializer: Any = None
    value_serializer: Any = None
    ottla_trace_context: bool = False

    def checked(self) -> Self:
        Settings.checked(self)
        if self.acks not in ("0", "1", "-1", "all"):
            raise SettingError(ACKS.format(self.acks))
        self._one_of("compression_type", "none", "gzip", "snappy", "lz4", "zstd")
        if isinstance(self.partitioner, str):
            self._one_of("partitioner", "default", "round_robin")
        for key in (
            "batch_size",
            "buffer_memory",
            "max_request_size",
            "max_in_flight_requests_per_connection",
        ):
            self._at_least(key, 1)
        if self.transactional_id is not None and not self.idempotent:
            raise SettingError("transactional.id needs acks=all and enable.idempotence=true")
        if self.enable_idempotence and (self.required_acks != -1 or self.in_flight > 5):
            raise SettingError("enable.idempotence needs acks=all and at most 5 requests in flight")
        if self.delivery_timeout_ms < self.linger_ms:
            raise SettingError("delivery.timeout.ms must not be below linger.ms")
        return self

    @property
    def level(self) -> int | None:
        """Of the compression in use: its own setting, else `compression.level`."""
        own: int | None = getattr(self, f"compression_{self.compression_type}_level", None)
        return self.compression_level if own is None else own

    @property
    def required_acks(self) -> int:
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def in_flight(self) -> int:
        return self.max_in_flight_requests_per_connection

    @property
    def idempotent(self) -> bool:
        """On unless turned off or made impossible by another setting, as in Kafka."""
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.required_acks == -1 and self.in_flight <= 5 and self.retries > 0


@frozen
class ConsumerSettings(Settings):
    """What is read, from where, and as which member of which group."""

    group_id: str | None = None
    group_protocol: str | None = None
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    partition_assignment_strategy: str = "range"
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    exclude_internal_topics: bool = True
    key_deserializer: Any = None
    value_deserializer: Any = None

    def checked(self) -> Self:
        Settings.checked(self)
        self._one_of("isolation_level", "read_uncommitted", "read_committed")
        self._one_of("auto_offset_reset", "earliest", "latest", "none")
        if self.group_protocol is not None:
            self._one_of("group_protocol", "classic", "consumer")
        for key in ("max_poll_records", "fetch_max_bytes", "max_partition_fetch_bytes"):
            self._at_least(key, 1)
        return self

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"


def read_properties(text: str) -> dict[str, str]:
    """A settings file in Java's form: `name=value` lines, `#` starts a comment."""
    options: dict[str, str] = {}
    for line in text.replace("\\\n", "").splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            options[name.strip()] = value.strip()
    return options


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise SettingError(f"{text!r} is no address; write host:port, for example 127.0.0.1:9092")
    if not 0 < int(port) < 65_536:
        raise SettingError(f"{text!r}: there is no port {port}; ports go from 1 to 65535")
    return host.strip("[]"), int(port)


def _modern_value(name: str, key: str, value: Any) -> Any:
    modern = OLD_VALUES.get((key, value)) if isinstance(value, str) else None
    if modern is not None:
        log.warning("%s=%s is the old way to say %s", name, value, modern)
    return value if modern is None else modern


def _convert(name: str, value: Any, hint: Any) -> Any:
    """`value` as the setting's type; texts come from files and command lines."""
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None or Any in allowed:
        return value
    try:
        if bool in allowed:
            return _boolean(value)
        if int in allowed:
            return int(value)
    except ValueError:
        raise SettingError(f"{name} is {value!r}; it must be {_wanted(allowed)}") from None
    if str in allowed and isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if str in allowed and not callable(value):
        return str(value)
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    match str(value).lower():
        case "true" | "1" | "yes":
            return True
        case "false" | "0" | "no":
            return False
        case _:
            raise ValueError(value)


def _wanted(allowed: tuple[Any, ...]) -> str:
    return "true or false" if bool in allowed else "a whole number"
