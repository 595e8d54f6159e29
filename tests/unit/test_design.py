"""docs/design.md and docs/cluster.md name modules: each of them exists."""

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


def _exists(name):
    return (ROOT / name).exists() or any(f"/{module}".endswith(f"/{name}") for module in MODULES)
