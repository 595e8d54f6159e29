"""Writes docs/protocol.md from the route table: every API and version that is served.

python tools/protocol_table.py [FILE]
"""

import sys
from pathlib import Path

from ottla.broker.routes import ROUTES

HEAD = """# The protocol that is served

Generated from `src/ottla/broker/routes.py` by `tools/protocol_table.py`; a test compares. ApiVersions answers
from the same table. Produce is advertised from version 0 on, although 3 is the first that is served:
librdkafka turns compression off otherwise.

| API | key | versions | handler |
|---|---|---|---|
"""


def table() -> str:
    rows = [
        f"| {route.api.name} | {key} | {route.version_min}-{route.version_max} "
        f"| `broker/handlers/{route.module}.py` |"
        for key, route in sorted(ROUTES.items())
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs/protocol.md"
    target.write_text(table())
