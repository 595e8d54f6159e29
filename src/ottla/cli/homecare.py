"""`ottla homecare lab`: the courses' device lab, with plain clients; and the worked example on Spark."""

import argparse
import functools
import threading

from ottla.cli.options import add_client_options, client_settings
from ottla.homecare import commands as spark_commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    lab = commands.add_parser("lab", help="devices that beat, a listener that notices, events to consume")
    lab.add_argument("--devices", type=int, default=15, metavar="N")
    lab.add_argument("--speed", type=float, default=1.0, metavar="X", help="so many times quicker")
    lab.add_argument(
        "--duration", type=float, metavar="S", help="seconds of the lab's time (default: no end)"
    )
    lab.add_argument("--seed", type=int, help="the same heartbeats again")
    lab.add_argument("--group", default="device-lab", help="the listener's group")
    lab.add_argument("--only", choices=["devices", "listener"], help="one half, for two terminals")
    add_client_options(lab)
    spark_commands.add_parsers(commands)


def run(arguments: argparse.Namespace) -> int:
    if arguments.command != "lab":
        return spark_commands.run(arguments.command, arguments.rest)
    from ottla.homecare import lab

    if arguments.speed <= 0:
        raise ValueError("--speed must be above 0")
    chosen = lab.Lab(
        client_settings(arguments),
        arguments.devices,
        arguments.speed,
        arguments.duration,
        arguments.seed,
        arguments.group,
    )
    say = functools.partial(print, flush=True)
    if arguments.only is None:
        lab.run(chosen, say)
        return 0
    lab.create_topics(chosen.settings)
    half = lab.beat if arguments.only == "devices" else lab.listen
    half(chosen, say, threading.Event())
    return 0
