"""`connect-distributed worker.properties`, as Apache Kafka's."""

import argparse

from ottla.cli import connect


def add_arguments(parser: argparse.ArgumentParser) -> None:
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    arguments.distributed = True
    return connect.run(arguments)
