"""`ottla COMMAND ...`: finds the command's module and imports that one alone, so that it starts quickly."""

import argparse
import gc
import os
import select
import sys
from collections.abc import Sequence
from importlib import import_module

from ottla.errors import OttlaError
from ottla.systems import NO_BROKER

# name -> (module, what it does)
COMMANDS = {
    "start": ("ottla.cli.start", "start a broker"),
    "doctor": ("ottla.cli.doctor", "check a broker's port, address, folder and limits"),
    "topics": ("ottla.cli.topics", "create, list, describe, alter, delete, grow and truncate topics"),
    "produce": ("ottla.cli.produce", "send records from standard input or files"),
    "consume": ("ottla.cli.consume", "print records, from anywhere to anywhere, alone or in a group"),
    "groups": ("ottla.cli.groups", "list, describe, delete groups; reset and delete their offsets"),
    "top": ("ottla.cli.top", "brokers, topics and groups by rate and lag, live"),
    "queue": ("ottla.cli.queue", "share groups, whose members share the records of topics"),
    "perf": ("ottla.cli.perf", "measure: produce, consume, latency"),
    "transactions": ("ottla.cli.transactions", "list, describe, find hanging and abort transactions"),
    "config": ("ottla.cli.config", "read and change settings of topics, brokers and groups"),
    "users": ("ottla.cli.users", "add, list and remove the users that log in with SCRAM"),
    "acls": ("ottla.cli.acls", "who may do what: allow, deny, list, explain"),
    "quotas": ("ottla.cli.quotas", "how much users, clients and addresses may use in a second"),
    "tokens": ("ottla.cli.tokens", "delegation tokens: create, list, renew, expire"),
    "secure": ("ottla.cli.secure", "certificates, a user and settings for a secured broker, in one command"),
    "cluster": (
        "ottla.cli.cluster",
        "start several brokers; describe, drain, balance, move; folders, features, APIs",
    ),
    "pipelines": ("ottla.cli.pipelines", "pipelines: list, status, metrics, reset"),
    "console": ("ottla.cli.console", "the cluster in the browser"),
    "streams": ("ottla.cli.streams", "stream applications: run, describe, status, reset, query, serve"),
    "connect": ("ottla.cli.connect", "a worker for connectors, with Kafka Connect's REST API"),
    "connectors": ("ottla.cli.connectors", "connectors: list, status, create, pause, restart, offsets"),
    "registry": ("ottla.cli.registry", "the schema registry: serve, list, show, register, check, delete"),
    "generate": ("ottla.cli.generate", "files for Prometheus and Grafana"),
    "mirror": ("ottla.cli.mirror", "copy topics to another cluster, exactly once; status, pause, promote"),
    "backup": ("ottla.cli.backup", "copy a broker's data as of one moment, while it runs or is stopped"),
    "restore": ("ottla.cli.restore", "make a broker's folders from a backup, or check the backup"),
    "import-kafka": ("ottla.cli.import_kafka", "go on with the data of a stopped Apache Kafka"),
    "export-kafka": ("ottla.cli.export_kafka", "give the data of a stopped broker to Apache Kafka"),
    "homecare": ("ottla.cli.homecare", "the device lab of the courses"),
    "completion": ("ottla.cli.completion", "complete commands and options in bash, zsh or fish"),
    "aliases": ("ottla.cli.aliases", "write kafka-topics.sh and the others as scripts, without Java"),
    "connect-standalone": ("ottla.cli.connect_standalone", "as Apache Kafka's tool of this name"),
    "connect-distributed": ("ottla.cli.connect_distributed", "as Apache Kafka's tool of this name"),
    "kafka-topics": ("ottla.cli.kafka_topics", "as Apache Kafka's tool of this name"),
    "kafka-console-producer": ("ottla.cli.kafka_console_producer", "as Apache Kafka's tool of this name"),
    "kafka-console-consumer": ("ottla.cli.kafka_console_consumer", "as Apache Kafka's tool of this name"),
    "kafka-consumer-groups": ("ottla.cli.kafka_consumer_groups", "as Apache Kafka's tool of this name"),
    "kafka-share-groups": ("ottla.cli.kafka_share_groups", "as Apache Kafka's tool of this name"),
    "kafka-console-share-consumer": (
        "ottla.cli.kafka_console_share_consumer",
        "as Apache Kafka's tool of this name",
    ),
    "kafka-streams-groups": ("ottla.cli.kafka_streams_groups", "as Apache Kafka's tool of this name"),
    "kafka-acls": ("ottla.cli.kafka_acls", "as Apache Kafka's tool of this name"),
    "kafka-delegation-tokens": ("ottla.cli.kafka_delegation_tokens", "as Apache Kafka's tool of this name"),
    "kafka-configs": ("ottla.cli.kafka_configs", "as Apache Kafka's tool of this name"),
    "kafka-client-metrics": ("ottla.cli.kafka_client_metrics", "as Apache Kafka's tool of this name"),
    "kafka-producer-perf-test": ("ottla.cli.kafka_producer_perf_test", "as Apache Kafka's tool of this name"),
    "kafka-consumer-perf-test": ("ottla.cli.kafka_consumer_perf_test", "as Apache Kafka's tool of this name"),
    "kafka-e2e-latency": ("ottla.cli.kafka_e2e_latency", "as Apache Kafka's tool of this name"),
    "kafka-get-offsets": ("ottla.cli.kafka_get_offsets", "as Apache Kafka's tool of this name"),
}


# They start a broker or open its folders, with calls that Windows does not have. The others are clients.
UNIX_ONLY = ("start", "doctor", "cluster", "backup", "restore", "import-kafka", "export-kafka", "homecare")


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in COMMANDS:
        return _run(words[0], words[1:])
    if words and words[0] in ("--version", "-V"):
        print("\n".join(_versions("-v" in words or "--verbose" in words)))
        return 0
    if words and words[0] in ("--help", "-h", "help"):
        print(_usage())
        return 0
    if words:
        from ottla.cli.suggestions import suggestion

        meant = suggestion(words[0], COMMANDS)
        print(f"ottla: there is no command {words[0]!r}{meant or '; see ottla --help'}", file=sys.stderr)
    else:
        print(_usage(), file=sys.stderr)
    return 2


def _run(name: str, rest: list[str]) -> int:
    # Start-up objects are long-lived: with Python's own thresholds the collector would walk them about 50 times,
    # which takes a tenth of a start.
    gc.set_threshold(50_000, 20, 50)
    if sys.platform == "win32" and name in UNIX_ONLY:
        print(f"ottla {name}: {NO_BROKER}", file=sys.stderr)
        return 1
    try:
        return _parsed_and_run(name, rest)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        from ottla.cli.extras import missing

        print(f"ottla {name}: {missing(name, error)}", file=sys.stderr)
        return 1
    except (OttlaError, OSError, ValueError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads_stdout():
            # The reader has gone (`| head`): not our failure. Python would complain again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        text = " ".join(_text(error).split()) or type(error).__name__
        print(f"ottla {name}: {text}", file=sys.stderr)
        return 1


def _nobody_reads_stdout() -> bool:
    """Sockets break with the same error as pipes, and theirs is a failure."""
    if sys.platform == "win32":  # its select knows sockets alone
        return True
    try:
        stdout = sys.stdout.fileno()
    except (AttributeError, OSError):  # closed from the start, or replaced by a program that captures it
        return False
    watch = select.poll()
    watch.register(stdout, select.POLLERR | select.POLLHUP)
    return bool(watch.poll(0))


def _text(error: Exception) -> str:
    """A file is named before what is wrong with it; a setting that the broker does not know has a suggestion."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error)
    _, unknown, name = text.partition("Unknown topic config name: ")
    if unknown:
        from ottla.cli.suggestions import topic_setting

        return text + topic_setting(name)
    return text


def _parsed_and_run(name: str, rest: list[str]) -> int:
    module = import_module(COMMANDS[name][0])
    # Every argument that is added makes a formatter; one without a width imports shutil, which takes 2 ms.
    parser = _parser_class(name)(
        prog=f"ottla {name}",
        description=COMMANDS[name][1],
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80),
    )
    module.add_arguments(parser)
    parser.formatter_class = argparse.HelpFormatter  # --help is as wide as the terminal
    return int(module.run(parser.parse_args(rest)) or 0)


def _parser_class(name: str) -> type[argparse.ArgumentParser]:
    if name.startswith("kafka-"):
        from ottla.cli.kafka_options import Parser as KafkaParser

        return KafkaParser
    from ottla.cli.suggestions import Parser

    return Parser


def _versions(verbose: bool) -> list[str]:
    """With -v also what decides how fast it is."""
    from importlib.metadata import version

    lines = [f"ottla {version('ottla')}"]
    if verbose:
        from importlib.util import find_spec
        from platform import python_implementation, python_version, system

        from ottla.wire.kernel import COMPILED

        lines += [
            f"python {python_version()} ({python_implementation()}, {system()})",
            f"kernel {'compiled' if COMPILED else 'in Python: slow; install where there is a C compiler'}",
            f"uvloop {version('uvloop') if find_spec('uvloop') else 'not installed'}",
        ]
    return lines


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["usage: ottla COMMAND ...", "", *lines, "", "ottla COMMAND --help tells more."])


if __name__ == "__main__":
    sys.exit(main())
