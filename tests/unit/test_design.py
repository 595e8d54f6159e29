"""Pages name modules and tests: each of them exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
MODULES = {path.relative_to(ROOT / "src/ottla").as_posix() for path in (ROOT / "src/ottla").rglob("*.py")}


@pytest.mark.parametrize("page", ["design.md", "cluster.md"])
def test_each_module_that_a_page_names_exists(page):
    named = set(NAMED.findall((ROOT / "docs" / page).read_text()))
    gone = [name for name in named if not _exists(name)]
    assert len(named) > 5
    assert not gone


PROOFS = (
    "2026-11-17-first-hours",
    "2026-11-17-no-client-can-starve",
    "2026-11-17-security-item-by-item",
    "2026-11-18-run-anywhere-item-by-item",
    "2026-11-18-see-it-item-by-item",
    "2026-11-18-pipelines-item-by-item",
    "2026-11-18-streams-item-by-item",
    "2026-11-18-connect-item-by-item",
    "2026-11-18-queues-item-by-item",
    "2026-11-18-contracts-item-by-item",
    "2026-11-18-mirror-item-by-item",
)


@pytest.mark.parametrize("page", PROOFS)
def test_each_test_that_a_list_of_proofs_names_exists(page):
    text = (ROOT / f"docs/decisions/{page}.md").read_text()
    named = re.findall(r"`(tests/[a-z_/]+\.py)(?:::(test_\w+))?`", text)
    assert len(named) > 30
    assert [
        (file, test)
        for file, test in named
        if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text())
    ] == []


def _exists(name):
    return (ROOT / name).exists() or any(f"/{module}".endswith(f"/{name}") for module in MODULES)
