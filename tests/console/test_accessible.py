"""Accessible: axe finds nothing serious in any view, light or dark; and our own checks where there is no npm."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.console.conftest import Window
from tests.console.test_views import VIEWS

PATHS = [path for path in VIEWS if path not in ("/?seconds=3600", "/topics?internal=1&sort=-records")]
# Dark differs in colours alone: the pages that have all of them.
DARK = ["/", "/topics", "/topics/orders/messages", "/topics/orders/settings", "/access?part=users"]


@pytest.fixture(scope="package")
def axe(tmp_path_factory):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, and axe-core comes with it")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core@4"],
        capture_output=True,
        timeout=240,
    )
    if done.returncode:
        pytest.skip("axe-core could not be installed from npm")
    return (folder / "node_modules/axe-core/axe.min.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(chromium, console, axe, scheme):
    window = Window(chromium, console, color_scheme=scheme)
    found = []
    for path in PATHS if scheme == "light" else DARK:
        window.goto(path)
        if "messages" in path and "live" not in path:
            window.page.locator("details.record").first.evaluate("each => { each.open = true }")
        for fold in window.page.locator("details.fold").all():
            fold.evaluate("each => { each.open = true }")
        window.page.evaluate(axe)
        told = window.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        for violation in told["violations"]:
            nodes = [node["html"][:160] for node in violation["nodes"][:3]]
            found.append(f"{path}: {violation['impact']} {violation['id']}: {nodes}")
    window.context.close()
    assert not found, "\n".join(found)


def test_every_control_has_a_name_and_every_page_one_heading(window):
    for path in PATHS:
        window.goto(path)
        unnamed = window.page.evaluate(
            """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a')]
                .filter((each) => !each.textContent.trim() && !each.labels?.length && !each.getAttribute('aria-label'))
                .map((each) => each.outerHTML)"""
        )
        assert not unnamed, (path, unnamed)
        assert window.page.locator("h1").count() == 1
        assert window.page.locator("html").get_attribute("lang") == "en"
        identities = window.page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
        assert len(identities) == len(set(identities)), (path, identities)


def test_colours_have_enough_contrast():
    """The tokens of the style sheet, by WCAG's formula: 4.5 for text in both schemes."""
    import re
    from pathlib import Path

    import ottla.console

    css = (Path(ottla.console.__file__).parent / "static/console.css").read_text()
    tokens = {
        name: pair for name, *pair in re.findall(r"--(\w+): light-dark\((#\w{6})\w*, (#\w{6})\w*\)", css)
    }

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for scheme in (0, 1):
        for ground in ("paper", "card", "lit"):
            for ink in ("ink", "soft", "accent", "good", "warn", "bad"):
                light, dark = sorted(
                    (luminance(tokens[ink][scheme]), luminance(tokens[ground][scheme])), reverse=True
                )
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground, scheme)
