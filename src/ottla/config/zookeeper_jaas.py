"""The login for ZooKeeper as Kafka's users have it: section `Client` of the JAAS file that KAFKA_OPTS names."""

import shlex

from ottla.config.jaas import jaas_section
from ottla.errors import InvalidConfig

_FILE = "-Djava.security.auth.login.config="
_SECTION = "-Dzookeeper.sasl.clientconfig="
_SWITCH = "-Dzookeeper.sasl.client="
_MODULE = "DigestLoginModule"


def zookeeper_auth(kafka_opts: str) -> str | None:
    """The value of ottla.zookeeper.auth, or None if the options of the JVM name no login for ZooKeeper."""
    options = shlex.split(kafka_opts)
    path = _last(options, _FILE, "").lstrip("=")  # Java takes `==` for "this file alone"
    if not path or _last(options, _SWITCH, "true").lower() == "false":
        return None
    name = _last(options, _SECTION, "Client")
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib is not needed elsewhere on the way to a broker
            text = file.read()
    except OSError as error:
        raise InvalidConfig(f"KAFKA_OPTS names {path} for logins, and it cannot be read: {error}") from error
    jaas = jaas_section(text, name, path)
    if jaas is None:  # a file for the listeners alone; Kafka too goes to ZooKeeper without a login then
        return None
    if not jaas.module.endswith(_MODULE):
        raise InvalidConfig(
            f"{path}: section {name} is for {jaas.module}; ZooKeeper logins here need {_MODULE}"
        )
    user, password = jaas.options.get("username", ""), jaas.options.get("password")
    if not user or ":" in user or password is None:
        raise InvalidConfig(f"{path}: section {name} needs username (without a colon) and password")
    return f"sasl:{user}:{password}"


def _last(options: list[str], prefix: str, default: str) -> str:
    """The last one counts, as in a JVM."""
    values = [option.removeprefix(prefix) for option in options if option.startswith(prefix)]
    return values[-1] if values else default
