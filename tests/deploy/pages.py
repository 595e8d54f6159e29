"""Code blocks of documentation pages, run in the order of the page."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.S | re.M)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    for language, rest, text in _FENCE.findall(page.read_text()):
        title = _TITLE.search(rest)
        yield Block(language, title[1] if title else "", text)


def run(page: Path, folder: Path, replaced: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Writes blocks with a title to files of that name and runs those of bash, each after the other; what they print.

    What a page starts in the background ends with it: all of it is one process group.
    """
    script = ["set -euo pipefail", "set -x"]
    for block in blocks(page):
        text = block.text
        for old, new in replaced.items():
            text = text.replace(old, new)
        if block.title:
            (folder / block.title).write_text(text)
        elif block.language == "bash":
            script.append(text)
    (folder / "page.sh").write_text("\n".join(script))
    with (folder / "page.out").open("w") as output:
        process = subprocess.Popen(
            ["bash", "page.sh"],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": PATH, **environment},
            start_new_session=True,
        )
        try:
            code = process.wait(240)
        finally:
            with suppress(ProcessLookupError):  # nothing was started in the background
                os.killpg(process.pid, signal.SIGTERM)
    printed = (folder / "page.out").read_text()
    assert code == 0, printed[-4000:]
    return printed
