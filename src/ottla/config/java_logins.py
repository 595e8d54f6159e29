"""Logins as Kafka's users have them: in the JAAS file that KAFKA_OPTS names.

Section `Client` is the login for ZooKeeper. `KafkaServer`, or `LISTENER.KafkaServer` for one listener, has an entry for
each kind of login of the listeners. What the settings say themselves counts more.
"""

import shlex
from collections.abc import Mapping

from ottla.config.jaas import jaas_sections, parse_jaas
from ottla.errors import InvalidConfig

_FILE = "-Djava.security.auth.login.config="
_SECTION = "-Dzookeeper.sasl.clientconfig="
_SWITCH = "-Dzookeeper.sasl.client="
_ZOOKEEPER_MODULE = "DigestLoginModule"
_SERVER = "KafkaServer"
_MECHANISMS = {
    "PlainLoginModule": ("plain",),
    "ScramLoginModule": ("scram-sha-256", "scram-sha-512"),
    "OAuthBearerLoginModule": ("oauthbearer",),
    "Krb5LoginModule": ("gssapi",),
}


def java_logins(kafka_opts: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that say what the file says, but for those that are set."""
    try:
        options = shlex.split(kafka_opts)
    except ValueError as error:
        raise InvalidConfig(f"KAFKA_OPTS cannot be read: {error}") from error
    path = _last(options, _FILE, "").lstrip("=")  # Java takes `==` for "this file alone"
    if not path:
        return {}
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib is not needed elsewhere on the way to a broker
            sections = jaas_sections(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"KAFKA_OPTS names {path} for logins, and it cannot be read: {error}") from error
    logins = _of_listeners(sections, settings.get("listeners", ""))
    is_wanted = _last(options, _SWITCH, "true").lower() != "false"
    name = _last(options, _SECTION, "Client")
    if settings.get("zookeeper.connect") and is_wanted and sections.get(name):
        logins["ottla.zookeeper.auth"] = _of_zookeeper(sections[name][0], f"{path}: section {name}")
    return {setting: text for setting, text in logins.items() if setting not in settings}


def _of_listeners(sections: Mapping[str, list[str]], listeners: str) -> dict[str, str]:
    logins: dict[str, str] = {}
    for listener in (text.partition("://")[0].strip().lower() for text in listeners.split(",")):
        for entry in sections.get(f"{listener}.{_SERVER}", sections.get(_SERVER, [])):
            module = entry.split(maxsplit=1)[0].rpartition(".")[2]
            for mechanism in _MECHANISMS.get(module, ()):
                logins[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = entry
    return logins


def _of_zookeeper(entry: str, where: str) -> str:
    jaas = parse_jaas(entry, where)
    if not jaas.module.endswith(_ZOOKEEPER_MODULE):
        raise InvalidConfig(f"{where} is for {jaas.module}; ZooKeeper logins here need {_ZOOKEEPER_MODULE}")
    user, password = jaas.options.get("username", ""), jaas.options.get("password")
    if not user or ":" in user or password is None:
        raise InvalidConfig(f"{where} needs username (without a colon) and password")
    return f"sasl:{user}:{password}"


def _last(options: list[str], prefix: str, default: str) -> str:
    """The last one counts, as in a JVM."""
    values = [option.removeprefix(prefix) for option in options if option.startswith(prefix)]
    return values[-1] if values else default
