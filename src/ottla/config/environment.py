"""Settings from environment variables, as the images of Apache Kafka and of the courses take them.

`KAFKA_NUM_PARTITIONS=3` is `num.partitions=3`: `_` stands for a dot, `__` for an underscore, `___` for a dash.
`OTTLA_...` works the same way and also names the settings that begin with `ottla.`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.config.broker import BROKER_KEYS
from ottla.config.kafka_names import UNUSED_PREFIXES, UNUSED_SETTINGS
from ottla.errors import InvalidConfig

PREFIXES = ("KAFKA_CFG_", "KAFKA_", "OTTLA_")

# The images start from Kafka's sample server.properties: one broker must be able to hold the internal topics.
ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
CLUSTER_ID = "CLUSTER_ID"
FROM_HOSTNAME = "OTTLA_NODE_ID_FROM_HOSTNAME"

# Of the start scripts and the JVM, or read by the entry point itself: never a setting.
_NOT_SETTINGS = re.compile(
    r"KAFKA_(HOME|VERSION|OPTS|DEBUG|HEAP_OPTS|GC_LOG_OPTS|JVM_PERFORMANCE_OPTS|JMX_\w+|LOG4J_\w+|TOOLS_\w+|"
    r"CREATE_TOPICS(_SEPARATOR)?|ADVERTISED_(HOST_NAME|PORT)|HOST_NAME|PORT|MODE|CLUSTER_ID|KRAFT_CLUSTER_ID|"
    r"ENABLE_KRAFT)|"
    r"OTTLA_(CONFIG|HTTP_PORT|HTTP_HOST|LOG_LEVEL|BOOTSTRAP|PROFILE|REGISTRY|CONNECT|CONSOLE|"
    r"NODE_ID_FROM_HOSTNAME|TEST_\w+)"
)
# A Kubernetes service named `kafka` or `ottla` puts its address into every pod under such names.
_OF_KUBERNETES = re.compile(r"(KAFKA|OTTLA)_(\w*_)?(SERVICE_(HOST|PORT)\w*|PORT(_\d+_(TCP|UDP)\w*)?)")
_COMMANDS = ("HOSTNAME_COMMAND", "PORT_COMMAND", "BROKER_ID_COMMAND", "RACK_COMMAND", "CUSTOM_INIT_SCRIPT")
_ORDINAL = re.compile(r"-(\d+)(\.|$)")
_CONTROLLER = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """One entry of KAFKA_CREATE_TOPICS: `name:partitions:replicas[:cleanup.policy]`."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class Environment:
    settings: dict[str, str]
    topics: tuple[WantedTopic, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What was ignored, and why: for the log."""


def read_environment(
    variables: Mapping[str, str], file_settings: Mapping[str, str], hostname: str
) -> Environment:
    """The settings of a container. Variables win over the file. InvalidConfig for what cannot be honoured."""
    for name in _COMMANDS:
        if variables.get(name):
            raise InvalidConfig(f"{name}: commands in variables are not run. Set the value itself instead")
    notes: list[str] = []
    own = _settings_of(variables, notes)
    settings = {**file_settings, **own}
    _take_node_id(settings, variables, hostname)
    _take_old_addresses(settings, own, variables)
    _leave_out_controller(settings, notes)
    settings.setdefault("listeners", "PLAINTEXT://0.0.0.0:9092")
    if "advertised.listeners" not in settings and settings["listeners"].startswith("PLAINTEXT://0.0.0.0:"):
        port = settings["listeners"].rpartition(":")[2]
        if "," not in settings["listeners"]:
            settings["advertised.listeners"] = f"PLAINTEXT://localhost:{port}"
    if variables.get(CLUSTER_ID) or variables.get("KAFKA_KRAFT_CLUSTER_ID"):
        notes.append(
            "the cluster id is chosen at the first start and kept in the data folder; the variable is ignored"
        )
    return Environment(ONE_REPLICA | settings, _topics(variables), tuple(notes))


def _settings_of(variables: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for variable, value in sorted(variables.items()):
        prefix = next((candidate for candidate in PREFIXES if variable.startswith(candidate)), None)
        if not value:  # as if it were not set: Kubernetes gives a missing label as an empty text
            continue
        if prefix is None or _NOT_SETTINGS.fullmatch(variable) or _is_of_kubernetes(variable, value):
            continue
        name = _setting_name(variable.removeprefix(prefix))
        if prefix == "OTTLA_" and f"ottla.{name}" in BROKER_KEYS:
            name = f"ottla.{name}"
        if _is_known(name):
            settings[name] = value
        elif prefix == "OTTLA_":
            raise InvalidConfig(
                f"{variable}: there is no setting {name} or ottla.{name}; see docs/settings.md"
            )
        else:
            notes.append(f"{variable} is ignored: there is no setting {name}")
    return settings


def _is_of_kubernetes(variable: str, value: str) -> bool:
    return _OF_KUBERNETES.fullmatch(variable) is not None and not (
        variable in ("KAFKA_PORT", "OTTLA_PORT") and value.isdecimal()
    )


def _setting_name(rest: str) -> str:
    marks = {1: ".", 2: "_", 3: "-"}
    return re.sub("_{1,3}", lambda underscores: marks[len(underscores[0])], rest.lower())


def _is_known(name: str) -> bool:
    return name in BROKER_KEYS or name in UNUSED_SETTINGS or name.startswith(UNUSED_PREFIXES)


def _take_node_id(settings: dict[str, str], variables: Mapping[str, str], hostname: str) -> None:
    if variables.get(FROM_HOSTNAME, "").lower() == "true":
        ordinal = _ORDINAL.search(hostname)
        if ordinal is None:
            raise InvalidConfig(f"{FROM_HOSTNAME}: the host name {hostname!r} does not end with -NUMBER")
        settings["node.id"] = ordinal[1]
    elif settings.get("broker.id") == "-1":
        del settings["broker.id"]  # "choose one": ours is node.id's default


def _take_old_addresses(
    settings: dict[str, str], own: Mapping[str, str], variables: Mapping[str, str]
) -> None:
    """Names of Kafka before 0.10, in which the courses' images are still configured."""
    old_port = variables.get("KAFKA_PORT", "")
    port = old_port if old_port.isdecimal() else "9092"
    if "listeners" not in own and ("KAFKA_HOST_NAME" in variables or old_port.isdecimal()):
        settings["listeners"] = f"PLAINTEXT://{variables.get('KAFKA_HOST_NAME', '0.0.0.0')}:{port}"
    host = variables.get("KAFKA_ADVERTISED_HOST_NAME")
    told_port = variables.get("KAFKA_ADVERTISED_PORT")
    if "advertised.listeners" in own or (not host and not told_port):
        return
    listeners = settings.get("listeners", f"PLAINTEXT://0.0.0.0:{port}")
    if "," in listeners:
        raise InvalidConfig(
            "KAFKA_ADVERTISED_HOST_NAME is for one listener, and there are several; "
            "set KAFKA_ADVERTISED_LISTENERS to an address for each of them"
        )
    name, _, address = listeners.partition("://")
    settings["advertised.listeners"] = (
        f"{name}://{host or 'localhost'}:{told_port or address.rpartition(':')[2]}"
    )


def _leave_out_controller(settings: dict[str, str], notes: list[str]) -> None:
    """One node of KRaft is broker and controller; here the broker keeps its metadata without a listener for it."""
    roles = {role.strip() for role in settings.pop("process.roles", "").split(",") if role.strip()}
    names = {
        name.strip().upper()
        for name in settings.pop("controller.listener.names", _CONTROLLER if roles else "").split(",")
        if name.strip()
    }
    voters = [
        voter
        for setting in ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
        for voter in settings.pop(setting, "").split(",")
        if voter.strip()
    ]
    if roles == {"controller"}:
        raise InvalidConfig(
            "process.roles=controller: brokers here need no controllers of their own. Leave this node out; "
            "a cluster keeps its metadata in ZooKeeper (zookeeper.connect)"
        )
    if len(voters) > 1 and "zookeeper.connect" not in settings:
        raise InvalidConfig(
            f"controller.quorum: {len(voters)} controllers form a cluster by Raft, which is not there. "
            "Several brokers need ZooKeeper: set zookeeper.connect (KAFKA_ZOOKEEPER_CONNECT)"
        )
    for setting in ("listeners", "advertised.listeners"):
        if names and setting in settings:
            settings[setting] = ",".join(
                listener
                for listener in settings[setting].split(",")
                if listener.partition("://")[0].strip().upper() not in names
            )
    if names:
        notes.append(
            f"the controller's listener ({', '.join(sorted(names))}) is left out: there is none here"
        )


def _topics(variables: Mapping[str, str]) -> tuple[WantedTopic, ...]:
    text = variables.get("KAFKA_CREATE_TOPICS", "")
    separator = variables.get("KAFKA_CREATE_TOPICS_SEPARATOR", ",").replace("$'\\n'", "\n")
    return tuple(_topic(topic.strip()) for topic in text.split(separator) if topic.strip())


def _topic(text: str) -> WantedTopic:
    name, *rest = [part.strip() for part in text.split(":", 3)]
    numbers, policy = rest[:2], rest[2] if len(rest) > 2 else ""
    if not name or len(numbers) != 2 or not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise InvalidConfig(f"KAFKA_CREATE_TOPICS: {text!r} is not name:partitions:replicas[:cleanup.policy]")
    configs = _topic_configs(policy)
    return WantedTopic(name, int(numbers[0]), int(numbers[1]), configs)


def _topic_configs(text: str) -> dict[str, str]:
    """`compact`, or what follows `--config` as `compact --config=segment.bytes=1000`."""
    policy, *more = re.split(r"\s+--config[= ]", text)
    configs = {"cleanup.policy": policy} if policy else {}
    for assignment in more:
        name, _, value = assignment.partition("=")
        configs[name.strip()] = value.strip()
    return configs
