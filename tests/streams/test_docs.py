"""The programs in docs/streams.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"


def test_the_programs_of_the_page_run_one_after_the_other() -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(programs) >= 5
    names: dict[str, Any] = {"__name__": "page"}
    for program in programs:
        exec(program, names)
