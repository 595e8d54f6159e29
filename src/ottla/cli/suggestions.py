"""What was meant by a word that is nearly right."""

import argparse
import re
import sys
from collections.abc import Iterable
from typing import NoReturn

from ottla.config.topic import TOPIC_KEYS


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean start?`, or nothing."""
    import difflib  # only for somebody's typing error

    close = difflib.get_close_matches(word, list(known), 1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def topic_setting(name: str) -> str:
    return suggestion(name, TOPIC_KEYS)


_SECRET = re.compile(r"(?i)([\w.-]*(?:password|secret|jaas\.config|token|keystore\.key))=.*?(?= -|$)", re.S)


class Parser(argparse.ArgumentParser):
    """Says what was meant where argparse lists everything that is allowed."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if choice is not None:
            known = re.findall(r"'?([\w.\-]+)'?", choice[2])
            message = f"there is no {choice[1]!r}{suggestion(choice[1], known)} ({', '.join(known)})"
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {without_secrets(message)}\n")


def without_secrets(message: str) -> str:
    """For an error that repeats what was typed: logs of scheduled jobs keep it."""
    return _SECRET.sub(r"\1=[hidden]", message)
