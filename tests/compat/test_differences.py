"""The documentation lists every deliberate difference with its reason, and no other."""

from pathlib import Path

from tests.compat.differences import DIFFERENCES

PAGE = Path(__file__).parents[2] / "docs/compatibility.md"


def test_the_documentation_lists_the_deliberate_differences():
    section = PAGE.read_text().partition("## Answers that differ on purpose\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert {row.split("|")[2].strip() for row in rows} == {each.reason for each in DIFFERENCES}
