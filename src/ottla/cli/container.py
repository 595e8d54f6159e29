"""`ottla start --environment`: a container's variables become settings, and the topics it asks for are created."""

import argparse
import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.config.environment import WantedTopic, read_environment
from ottla.config.settings import read_properties
from ottla.errors import (
    InvalidConfig,
    InvalidReplicationFactor,
    NotController,
    ProtocolError,
    TopicAlreadyExists,
)
from ottla.metadata.internal import NewTopic, Setting

if TYPE_CHECKING:
    from ottla.server.node import Node

log = logging.getLogger("ottla.server")

USUAL_FILE = "/etc/ottla/server.properties"
PATIENCE_S = 120
RETRY_S = 1
_PASSING = (InvalidReplicationFactor, NotController)  # the other brokers of the cluster still start


def take_environment(arguments: argparse.Namespace, file_settings: Mapping[str, str]) -> dict[str, str]:
    """The settings; the topics are left in `arguments.topics`."""
    environment = read_environment(os.environ, file_settings or _file_settings(), socket.gethostname())
    for note in environment.notes:
        log.warning("%s", note)
    arguments.topics = environment.topics
    port = os.environ.get("OTTLA_HTTP_PORT")
    if port and arguments.http is None:
        if not port.isdecimal():
            raise InvalidConfig(f"OTTLA_HTTP_PORT={port} is not a port")
        arguments.http = (os.environ.get("OTTLA_HTTP_HOST") or "127.0.0.1", int(port))
    level = os.environ.get("OTTLA_LOG_LEVEL")
    if level:
        try:
            logging.getLogger().setLevel(level.upper())
        except ValueError:
            raise InvalidConfig(f"OTTLA_LOG_LEVEL={level} is not DEBUG, INFO, WARNING or ERROR") from None
    return environment.settings


def _file_settings() -> dict[str, str]:
    """Of OTTLA_CONFIG, which must exist, or of the usual place, if a file was mounted there."""
    named = os.environ.get("OTTLA_CONFIG")
    path = Path(named or USUAL_FILE)
    return read_properties(path.read_text()) if named or path.exists() else {}


async def create_topics(node: "Node", wanted: Sequence[WantedTopic], retry_s: float = RETRY_S) -> None:
    """Those that are missing. While other brokers are still to come, it is tried again."""
    missing = {topic.name: topic for topic in wanted}
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while missing:
        errors = await _create(node, list(missing.values()))
        for name in list(missing):
            error = errors.get(name)
            if error is None or isinstance(error, TopicAlreadyExists):
                log.info("topic %s is there", name)
                del missing[name]
            elif not isinstance(error, _PASSING) or asyncio.get_running_loop().time() > deadline:
                log.error("topic %s of KAFKA_CREATE_TOPICS is not created: %s", name, error)
                del missing[name]
        if missing:
            await asyncio.sleep(retry_s)


async def _create(node: "Node", wanted: Sequence[WantedTopic]) -> dict[str, ProtocolError]:
    from ottla.broker.waits import Running

    topics = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            configs=tuple(Setting(name, value) for name, value in topic.configs.items()),
        )
        for topic in wanted
    ]
    done: asyncio.Future[dict[str, ProtocolError]] = asyncio.get_running_loop().create_future()

    def finished(result: dict[str, ProtocolError] | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result or {})

    Running(node.broker.metadata.create_topics(topics), finished).step()
    return await done
