"""docs/benchmarks.md: one section per family of benchmarks, each written by its own run.

A run of some benchmarks replaces their lines and keeps the others; a line tells the day it was measured.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench import figures
from tests.oracle import cluster

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
Row = Sequence[str]


def table(head: Row, rows: Sequence[Row]) -> str:
    """Markdown with aligned columns: read in a terminal as well."""
    lines = [head, ["---"] * len(head), *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def write(family: str, intro: str, head: Row, rows: Sequence[Row]) -> None:
    """Put the rows (their first cell is their name) into the section of this family."""
    text = DOCUMENT.read_text()
    begin, end = f"<!-- {family} -->", f"<!-- end of {family} -->"
    before, found, rest = text.partition(begin)
    old, _, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{DOCUMENT.name} has no section {begin} ... {end}")
    today = datetime.date.today().isoformat()
    merged = {line[0]: line for line in _rows(old) if len(line) == len(head) + 1}
    merged.update({row[0]: [*row, today] for row in rows})
    section = f"{intro}\n\n{machine()}\n\n{table([*head, 'measured'], list(merged.values()))}"
    DOCUMENT.write_text(f"{before}{begin}\n{section}\n{end}{after}")
    figures.copy()


def _rows(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def machine() -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = (
        subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()[:1]
        if cluster.why_not() is None
        else []
    )
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {python}, {''.join(java) or 'no Java'}"


def kafka_version() -> str:
    pom = (cluster.SCRIPT.parent / "pom.xml").read_text()
    return pom.split("<kafka.version>")[1].split("<")[0]
