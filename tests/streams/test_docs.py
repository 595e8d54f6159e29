"""The programs in docs/streams.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"


def test_the_first_program_and_its_test() -> None:
    program, check = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(program + check, {"__name__": "page"})
