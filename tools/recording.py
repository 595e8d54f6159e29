"""Records the README's commands in a terminal: runs them against a broker and writes what they print as a small SVG.

    python tools/recording.py [docs/recording.svg]

Lines appear at the times at which they were printed; commands are typed before. Nothing is made up: the picture is
remade whenever commands or their output change.
"""

from __future__ import annotations

import html
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```bash\n(.*?)^```", re.S | re.M)
_WIDTH, _LINE, _LEFT, _TOP, _COLUMNS = 860, 19, 16, 44, 100
_TYPED_S, _PAUSE_S = 0.03, 0.4
_STYLE = """text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}
.c{fill:#a3be8c}.t{fill:#7b8394;font-size:12px}
g{opacity:0;animation:show .01s linear forwards}@keyframes show{to{opacity:1}}"""


def record(folder: Path) -> list[tuple[float, str, str]]:
    """When, what kind (a command or what it printed) and the line."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "OTTLA_BOOTSTRAP": f"127.0.0.1:{port}",
        "COLUMNS": str(_COLUMNS),
    }
    (block,) = _FENCE.findall((ROOT / "README.md").read_text())
    lines, now, broker = [], 0.0, None
    try:
        for command in block.splitlines():
            now += _PAUSE_S + _TYPED_S * len(command)
            lines.append((now, "c", f"$ {command}"))
            begun = time.monotonic()
            if command.endswith("&"):
                words = command.removesuffix("&").replace("ottla start", f"exec ottla start --port {port}")
                broker = subprocess.Popen(
                    ["bash", "-c", words], cwd=folder, env=environment, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                printed = _until_ready(broker).replace(str(port), "9092")
            else:
                printed = subprocess.run(
                    ["bash", "-c", command], cwd=folder, env=environment, text=True, capture_output=True, check=True
                ).stdout  # fmt: skip
            now += time.monotonic() - begun
            lines += [(now, "o", line[:_COLUMNS]) for line in printed.replace(str(port), "9092").splitlines()]
    finally:
        if broker is not None:
            broker.terminate()
            broker.wait()
    return lines


def _until_ready(broker: subprocess.Popen[str]) -> str:
    assert broker.stdout is not None
    for line in broker.stdout:
        if "ready" in line:
            return line
    raise SystemExit("the broker did not start")


def draw(lines: list[tuple[float, str, str]]) -> str:
    height = _TOP + _LINE * len(lines) + 12
    shown = [
        f'<g style="animation-delay:{at:.2f}s"><text class="{kind}" x="{_LEFT}" y="{_TOP + _LINE * (number + 1) - 5}">'
        f"{html.escape(line)}</text></g>"
        for number, (at, kind, line) in enumerate(lines)
    ]
    dots = "".join(
        f'<circle cx="{20 + 18 * i}" cy="18" r="6" fill="{c}"/>'
        for i, c in enumerate(("#bf616a", "#ebcb8b", "#a3be8c"))
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
            f' width="{_WIDTH}" height="{height}">',
            f"<title>The README's commands in a terminal, {lines[-1][0]:.0f} seconds</title><style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#20242c"/>{dots}',
            *shown,
            "</svg>\n",
        ]
    )


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "recording.svg"
    with tempfile.TemporaryDirectory(prefix="ottla-recording-") as folder:
        target.write_text(draw(record(Path(folder))))
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
