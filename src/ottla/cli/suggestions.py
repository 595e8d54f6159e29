"""What was meant by a word that is nearly right."""

import argparse
import re
import sys
from collections.abc import Iterable
from typing import NoReturn


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean start?`, or nothing."""
    import difflib  # only for somebody's typing error

    close = difflib.get_close_matches(word, list(known), 1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


class Parser(argparse.ArgumentParser):
    """Says what was meant where argparse lists everything that is allowed."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if choice is not None:
            known = re.findall(r"'?([\w.\-]+)'?", choice[2])
            message = f"there is no {choice[1]!r}{suggestion(choice[1], known)} ({', '.join(known)})"
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {message}\n")
