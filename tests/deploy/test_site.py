"""The site builds offline without a warning, with reference pages that have everything."""

import os
import subprocess
import sys

import pytest

from ottla.cli.main import COMMANDS
from ottla.config.broker import BROKER_KEYS
from ottla.config.topic import TOPIC_KEYS
from tests.deploy.containers import ROOT

pytest.importorskip("mkdocs", reason="needs the group deploy-tests")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr[-4000:]
    return folder


def test_every_page_of_docs_is_in_the_navigation(site):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    index = (site / "index.html").read_text()
    assert {name for name in pages if f'href="{name}.html"' not in index} == set()


def test_every_setting_and_command_is_in_the_reference(site):
    settings = (site / "reference/settings.html").read_text()
    assert {name for name in (*BROKER_KEYS, *TOPIC_KEYS) if f">{name}<" not in settings} == set()
    commands = (site / "reference/commands.html").read_text()
    assert {name for name in COMMANDS if f"ottla {name}" not in commands} == set()


def test_every_example_is_told(site):
    told = (site / "examples.html").read_text()
    programs = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    assert len(programs) >= 6
    assert {name for name in programs if f"examples/{name}/" not in told} == set()


def test_pages_load_nothing_from_elsewhere(site):
    """Only links for people point away: the site works on a machine without a network."""
    for name in ("index.html", "reference/settings.html"):
        page = (site / name).read_text()
        assert 'src="http' not in page and 'rel="stylesheet" href="http' not in page
