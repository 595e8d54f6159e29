"""docs/metrics.md has every series and every alert, as the code has them."""

import importlib.util
import re
from pathlib import Path

from ottla.broker.handlers.loggers import KNOWN

PROJECT = Path(__file__).parents[2]
DOCUMENT = PROJECT / "docs/metrics.md"


def test_the_tables_are_those_of_the_code():
    spec = importlib.util.spec_from_file_location("metrics_table", PROJECT / "tools/metrics_table.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.written(DOCUMENT.read_text()) == DOCUMENT.read_text(), "run tools/metrics_table.py"


def test_every_logger_of_the_code_is_known_before_its_first_line():
    named = {
        name
        for package in (
            "broker",
            "client",
            "coordination",
            "metadata",
            "replication",
            "security",
            "server",
            "storage",
        )
        for path in (PROJECT / "src/ottla" / package).rglob("*.py")
        for name in re.findall(r'getLogger\("([a-z.]+)"\)', path.read_text())
    }
    assert named <= set(KNOWN)
