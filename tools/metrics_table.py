"""Writes the tables of docs/metrics.md from the catalogues of series; the text around them is left alone.

python tools/metrics_table.py [FILE]
"""

import re
import sys
from pathlib import Path

from ottla.cli.monitoring.alerts import ALERTS
from ottla.cli.monitoring.pipelines import SERIES
from ottla.server.metrics.catalogue import PAGES

HOME = Path(__file__).parent.parent / "docs/metrics.md"


def tables() -> dict[str, str]:
    """By the name that stands in the document's comments."""
    pages = {**PAGES, "pipelines": SERIES}
    found = {
        name: _table(("series", "type", "meaning"), [(f"`{n}`", k, m) for n, (k, m) in series.items()])
        for name, series in pages.items()
    }
    rows = [(f"`{a.name}`", a.severity, f"`{a.expression} {a.condition}`", a.hold) for a in ALERTS]
    return found | {"alerts": _table(("alert", "severity", "fires while", "for"), rows)}


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def written(text: str) -> str:
    for name, table in tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        text, count = pattern.subn(lambda _, found=f"{begin}{table}{end}": found, text)  # type: ignore[misc]
        assert count == 1, f"{HOME} has {count} places for {name}"
    return text


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HOME
    target.write_text(written(HOME.read_text()))
