"""Copies the figures that `ottla homecare size` computes with from docs/benchmarks.md into the package.

    python -m bench.figures

The page is not part of the wheel, so the package has a copy; `document.write` renews it, and a test compares the two.
"""

from __future__ import annotations

import re
from pathlib import Path

from ottla.homecare.figures import MEASURED

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
COPY = Path(__file__).parents[1] / "src" / "ottla" / "homecare" / "figures.py"


def of_the_page() -> tuple[int, dict[str, float]]:
    """Cores of the machine and the column Ottla of the broker's table, for the measures that are copied."""
    section = PAGE.read_text().partition("<!-- broker -->")[2].partition("<!-- end of broker -->")[0]
    cores = re.search(r"^(\d+) cores", section, re.MULTILINE)
    assert cores is not None, f"{PAGE.name} does not say how many cores the machine has"
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    ottla = {row[0]: row[3] for row in cells}
    return int(cores[1]), {name: float(ottla[name].replace(",", "")) for name in MEASURED}


def copy() -> None:
    cores, measured = of_the_page()
    text = COPY.read_text()
    text = re.sub(r"^CORES = .*", f"CORES = {cores}", text, flags=re.MULTILINE)
    for name, value in measured.items():
        text = re.sub(rf'^(    "{re.escape(name)}": ).*', rf"\g<1>{value:_},", text, flags=re.MULTILINE)
    COPY.write_text(text)


if __name__ == "__main__":
    copy()
