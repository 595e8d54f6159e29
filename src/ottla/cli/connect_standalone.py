"""`connect-standalone worker.properties [connector.properties ...]`, as Apache Kafka's."""

import argparse

from ottla.cli import connect


def add_arguments(parser: argparse.ArgumentParser) -> None:
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    return connect.run(arguments)
