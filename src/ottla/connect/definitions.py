"""The settings that every connector has, with Kafka's names, types, defaults and order."""

import re
from typing import Any

from ottla.connect.settings import BOOLEAN, CLASS, HIGH, INT, LIST, LONG, LOW, MEDIUM, SHORT, STRING, Setting

_COMMON, _ERRORS = "Common", "Error Handling"


def _converter(side: str, order: int) -> tuple[Setting, Setting]:
    shown = side.capitalize()
    return (
        Setting(f"{side}.converter", CLASS, None, f"Class that converts {side}s", LOW, display=f"{shown} converter class", group=_COMMON, order=order, width="SHORT"),
        Setting(f"{side}.converter.plugin.version", STRING, None, "Not used: there is one version", LOW, display=f"{shown} converter version", group=_COMMON, order=order + 1, width="SHORT"),
    )  # fmt: skip


def _regex(value: Any) -> str | None:
    try:
        re.compile(value)
    except re.error as error:
        return f"Invalid value {value} for configuration topics.regex: Invalid regular expression: {error}"
    return None


COMMON = (
    Setting("name", STRING, doc="Name of the connector, one of its kind in the cluster", importance=HIGH, display="Connector name", group=_COMMON, order=1, width="MEDIUM"),
    Setting("connector.class", STRING, doc="Class or short name of the connector", importance=HIGH, display="Connector class", group=_COMMON, order=2, width="LONG"),
    Setting("connector.plugin.version", STRING, None, "Not used: there is one version", MEDIUM, display="Connector version", group=_COMMON, order=3, width="MEDIUM"),
    Setting("tasks.max", INT, "1", "Tasks at most", HIGH, least=1, display="Tasks max", group=_COMMON, order=4, width="SHORT"),
    Setting("tasks.max.enforce", BOOLEAN, "true", "Not used: there are never more tasks", LOW, display="Enforce tasks max", group=_COMMON, order=5, width="SHORT"),
    *_converter("key", 6),
    *_converter("value", 8),
    *_converter("header", 10),
    Setting("transforms", LIST, "", "Names of the transforms, in their order", LOW, display="Transforms", group="Transforms", order=12, width="LONG"),
    Setting("predicates", LIST, "", "Names of the predicates that transforms use", LOW, display="Predicates", group="Predicates", order=13, width="LONG"),
    Setting("config.action.reload", STRING, "restart", "Not used: secrets are read at each start", LOW, choices=("none", "restart"), display="Reload Action", group=_COMMON, order=14, width="MEDIUM"),
    Setting("errors.retry.timeout", LONG, "0", "Milliseconds for which a failed operation is tried again; -1: for ever", MEDIUM, least=-1, display="Retry Timeout for Errors", group=_ERRORS, order=1, width="MEDIUM"),
    Setting("errors.retry.delay.max.ms", LONG, "60000", "Longest pause between two tries", MEDIUM, least=1, display="Maximum Delay Between Retries for Errors", group=_ERRORS, order=2, width="MEDIUM"),
    Setting("errors.tolerance", STRING, "none", "all: records that fail are passed over; none: the task fails", MEDIUM, choices=("none", "all"), display="Error Tolerance", group=_ERRORS, order=3, width="SHORT"),
    Setting("errors.log.enable", BOOLEAN, "false", "Whether records that are passed over are logged", MEDIUM, display="Log Errors", group=_ERRORS, order=4, width="SHORT"),
    Setting("errors.log.include.messages", BOOLEAN, "false", "Whether the log shows the record itself", MEDIUM, display="Log Error Details", group=_ERRORS, order=5, width="SHORT"),
)  # fmt: skip

SOURCE_SETTINGS = (
    *COMMON,
    Setting("topic.creation.groups", LIST, "", "Groups of settings for topics that are created", LOW, display="Topic Creation Groups", group="Topic Creation", order=1, width="LONG"),
    Setting("exactly.once.support", STRING, "requested", "Every source is exactly once here", MEDIUM, choices=("requested", "required"), display="Exactly once support", group="Exactly Once Support", order=2, width="SHORT"),
    Setting("transaction.boundary", STRING, "poll", "Always poll: a transaction for each read", MEDIUM, choices=("poll", "interval", "connector"), display="Transaction Boundary", group="Exactly Once Support", order=3, width="SHORT"),
    Setting("transaction.boundary.interval.ms", LONG, None, "Not used", LOW, least=0, display="Transaction boundary interval", group="Exactly Once Support", order=4, width="SHORT"),
    Setting("offsets.storage.topic", STRING, None, "A topic of its own for the connector's offsets", LOW, display="Offsets topic", group="offsets.topic", order=1, width="LONG"),
)  # fmt: skip

SINK_SETTINGS = (
    *COMMON,
    Setting("topics", LIST, "", "Topics to read", HIGH, display="Topics", group=_COMMON, order=4, width="LONG"),
    Setting("topics.regex", STRING, "", "Regular expression of the topics to read", HIGH, check=_regex, display="Topics regex", group=_COMMON, order=4, width="LONG"),
    Setting("errors.deadletterqueue.topic.name", STRING, "", "Topic for records that are passed over", MEDIUM, display="Dead Letter Queue Topic Name", group=_ERRORS, order=6, width="MEDIUM"),
    Setting("errors.deadletterqueue.topic.replication.factor", SHORT, "3", "Of that topic, if it is created", MEDIUM, display="Dead Letter Queue Topic Replication Factor", group=_ERRORS, order=7, width="MEDIUM"),
    Setting("errors.deadletterqueue.context.headers.enable", BOOLEAN, "false", "Whether headers tell what went wrong", MEDIUM, display="Enable Error Context Headers", group=_ERRORS, order=8, width="MEDIUM"),
)  # fmt: skip
