"""What mkdocs does not know by itself: the README as the first page, reference pages made from the code, examples."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from reference import PAGES  # noqa: E402

# A link out of docs/ has no page on the site: its text stays, and the file must exist.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?!https?:|#|mailto:)((?:\.\./)+[^)#]+)(#[^)]*)?\)")
_OF_README = re.compile(r"\]\(docs/([^)]*)\)")


def on_config(config: Any) -> Any:
    """A page that the navigation does not name yet stands at its end."""
    named = re.findall(r"[\w/-]+\.md", str(config["nav"]))
    missing = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
    if missing:
        config["nav"].append({"More": missing})
    return config


def on_files(files: Files, config: Any) -> Files:
    readme = _OF_README.sub(lambda found: f"]({found[1] or 'decisions/'})", (ROOT / "README.md").read_text())
    readme = re.sub(r"\[([^\]]+)\]\((CONTRIBUTING|SECURITY|CHANGELOG)\.md\)", r"\1", readme)
    readme = readme.replace("](decisions/)", "](decisions/index.md)").replace(
        "](examples/)", "](examples.md)"
    )
    files.append(File.generated(config, "index.md", content=readme))
    files.append(File.generated(config, "examples.md", content=_examples()))
    files.append(File.generated(config, "decisions/index.md", content=_decisions()))
    files.append(File.generated(config, "changelog.md", content=_changelog()))
    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    def replace(found: re.Match[str]) -> str:
        target = (Path(config["docs_dir"]) / page.file.src_uri).parent / found[2]
        if target.resolve().is_relative_to(Path(config["docs_dir"]).resolve()):
            return found[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {found[2]}, which does not exist")
        return f"{found[1]} (`{target.resolve().relative_to(ROOT)}`)"

    return _OUTSIDE.sub(replace, markdown.replace("](decisions/)", "](decisions/index.md)"))


def _examples() -> str:
    """The README of each example, one after the other."""
    parts = [
        "# A program for every use case\n\nEach is a short program over the public API, with a test. In `examples/`.\n"
    ]
    for path in sorted((ROOT / "examples").glob("*/README.md")):
        title, _, text = path.read_text().partition("\n")
        parts.append(f"## {title.removeprefix('# ')}\n\n{text}\nIn `examples/{path.parent.name}/`.\n")
    return "\n".join(parts)


def _decisions() -> str:
    lines = ["# Decisions", "", "Hard choices, dated.", ""]
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text().split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def _changelog() -> str:
    return re.sub(r"\]\(docs/", "](", (ROOT / "CHANGELOG.md").read_text())
