"""Lines of functions and modules in src/ottla, without generated code: the table at the end of docs/design.md.

python tools/sizes.py
"""

import ast
from pathlib import Path
from statistics import median

SOURCE = Path(__file__).parents[1] / "src/ottla"
GENERATED = ("wire/messages/", "errors.py")
FUNCTION_LINES_MAX = 40
MODULE_LINES_MAX = 400
# The packages that the first column of the table had.
FIRST_PACKAGES = {
    "aio", "broker", "cli", "client", "config", "coordination", "homecare", "metadata", "replication", "server",
    "spark", "storage", "testing", "wire",
}  # fmt: skip


def main() -> None:
    modules = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py")) if not _is_generated(path)}
    first = {path: text for path, text in modules.items() if _package(path) in FIRST_PACKAGES}
    for title, some in (("the first packages", first), ("all", modules)):
        functions = sorted(lines for text in some.values() for lines in _functions(text))
        lengths = sorted(len(text.splitlines()) for text in some.values())
        print(f"{title}: {sum(lengths):,} lines")
        _show("functions", functions, FUNCTION_LINES_MAX)
        _show("modules", lengths, MODULE_LINES_MAX)


def _is_generated(path: Path) -> bool:
    return path.relative_to(SOURCE).as_posix().startswith(GENERATED)


def _package(path: Path) -> str:
    """A module of `ottla` itself counts with the first ones."""
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "wire"


def _functions(text: str) -> list[int]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    ]


def _show(kind: str, lengths: list[int], limit: int) -> None:
    nine_tenths = lengths[int(len(lengths) * 0.9)]
    print(f"  {kind}: median {median(lengths):.0f}, 90 % {nine_tenths}, largest {lengths[-1]}")
    print(f"  {kind} over {limit} lines: {sum(length > limit for length in lengths)} of {len(lengths):,}")


if __name__ == "__main__":
    main()
