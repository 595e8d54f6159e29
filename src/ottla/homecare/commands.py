"""The commands of `ottla homecare`: which module serves each. They are imported when one is used."""

import argparse
from importlib import import_module
from typing import Any, NamedTuple

from ottla.errors import OttlaError


class MissingExtra(OttlaError):
    """A package is not installed that comes with an extra."""


class Command(NamedTuple):
    module: str
    text: str
    jobs: tuple[str, ...] = ()  # for those that run pipelines


COMMANDS = {
    "demo": Command("ottla.homecare.demo", "broker, simulator and pipelines in one command, with a verdict"),
    "simulate": Command("ottla.homecare.simulator", "devices and patients that send"),
    "technician": Command("ottla.homecare.run", "which devices are offline, since when", ("technician",)),
    "nurse": Command("ottla.homecare.run", "patients out of range, with who looks after them", ("nurse",)),
    "billing": Command("ottla.homecare.run", "totals by patient and month, exactly once", ("billing",)),
    "pipelines": Command("ottla.homecare.run", "all three in one driver", ("technician", "nurse", "billing")),
    "table": Command("ottla.homecare.table", "the billing totals as a Parquet table"),
    "size": Command(
        "ottla.homecare.size", "topics, brokers, cores, disk and network for a number of patients"
    ),
}


def add_parsers(parsers: Any) -> None:
    """One for each command, which takes all that follows: its own parser comes with its module."""
    for name, command in COMMANDS.items():
        # No prefix character: options are not looked at here.
        parser = parsers.add_parser(name, help=command.text, prefix_chars="\0", add_help=False)
        parser.add_argument("rest", nargs=argparse.REMAINDER)


def run(name: str, rest: list[str]) -> int:
    try:
        return _run(name, rest)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ottla"):
            raise
        raise MissingExtra(
            f"`ottla homecare {name}` needs {error.name}: pip install 'ottla[spark]'"
        ) from None


def _run(name: str, rest: list[str]) -> int:
    command = COMMANDS[name]
    module = import_module(command.module)
    parser = argparse.ArgumentParser(prog=f"ottla homecare {name}", description=command.text)
    module.add_arguments(parser)
    arguments = parser.parse_args(rest)
    return int(module.run(arguments, command.jobs) if command.jobs else module.run(arguments))
