"""Levels of loggers, seen and changed while the worker runs. Ours are Python's; Java's names are taken as they come."""

import logging
import time
from typing import Any

from ottla.connect.worker.refusals import bad_request, not_found

_LEVELS = {
    "OFF": logging.CRITICAL + 10, "FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING,
    "INFO": logging.INFO, "DEBUG": logging.DEBUG, "TRACE": 5, "ALL": 1,
}  # fmt: skip
_changed: dict[str, int] = {}  # milliseconds


def all_levels() -> dict[str, Any]:
    names = sorted(
        name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)
    )
    return {"root": _described("root"), **{name: _described(name) for name in names}}


def level(name: str) -> dict[str, Any]:
    if name != "root" and not isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
        raise not_found(f"Logger {name} not found.")
    return _described(name)


def set_level(name: str, wanted: Any) -> list[str]:
    """The loggers that it changes: this one and those below it."""
    if wanted is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    if str(wanted).upper() not in _LEVELS:
        raise not_found(f"invalid log level '{wanted}'.")
    logger = _logger(name)
    below = sorted(
        logger_name
        for logger_name, known in logging.root.manager.loggerDict.items()
        if isinstance(known, logging.Logger) and (logger_name == name or logger_name.startswith(f"{name}."))
    )
    logger.setLevel(_LEVELS[str(wanted).upper()])
    for logger_name in below:
        logging.getLogger(logger_name).setLevel(_LEVELS[str(wanted).upper()])
    for logger_name in {name, *below}:
        _changed[logger_name] = int(time.time() * 1000)
    return ["root"] if name == "root" else below


def _described(name: str) -> dict[str, Any]:
    effective = _logger(name).getEffectiveLevel()
    shown = next((text for text, number in _LEVELS.items() if number <= effective), "ALL")
    return {"level": shown, "last_modified": _changed.get(name)}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == "root" else name)
