"""Log lines as JSON, one object a line: `ottla start --log-format json`.

A caller may add what the line is about: `logger.info(..., extra={"fields": {"client": ..., "topic": ...}})`.
"""

import json
import logging
from datetime import UTC, datetime

NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}  # as the levels of loggers are called when they are set


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": NAMES.get(record.levelname, record.levelname),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in getattr(record, "fields", {}).items():
            if name not in line and value is not None:
                line[name] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
