"""Tutorials are run from the first block to the last; every command is one that exists. Blocks: test_snippets.py."""

import argparse
import ast
import os
import re
import shlex
import textwrap
from importlib import import_module

import pytest

from ottla.cli.main import COMMANDS
from ottla.ensemble import why_not
from tests.deploy.pages import ROOT, blocks, run
from tests.oracle.ports import free_ports

PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "examples").glob("*/README.md")])
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]


def consecutive(count):
    """Ports one after the other."""
    ports = free_ports(count)
    while ports[-1] - ports[0] != count - 1:
        ports = [*ports[1:], *free_ports(1)]
    return ports


def test_the_tutorial_for_testers(tmp_path):
    printed = run(ROOT / "docs/tutorial-testing.md", tmp_path, {}, {"PYTHONPATH": str(tmp_path)})
    assert "3 passed" in printed and "2 passed" in printed


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_tutorial_for_operators(tmp_path):
    ports = consecutive(4)
    replaced = {"9092": str(ports[0]), "9094": str(ports[2]), "2181": str(ports[3])}
    environment = {"OTTLA_BOOTSTRAP": f"127.0.0.1:{ports[0]}"}
    printed = run(ROOT / "docs/tutorial-cluster.md", tmp_path, replaced, environment)
    assert "2000" in printed.split("uniq")[1].split()


@pytest.mark.slow
def test_the_tutorial_for_spark(tmp_path):
    pytest.importorskip("pyspark", reason="needs the extra spark")
    (port,) = free_ports(1)
    text = {"ottla start": f"ottla start --port {port}", "localhost:9092": f"127.0.0.1:{port}"}
    printed = run(ROOT / "docs/tutorial-spark.md", tmp_path, text, {"OTTLA_BOOTSTRAP": f"127.0.0.1:{port}"})
    assert re.search(r"\|\s*be\|\s*2\|", printed)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_on_a_page_is_python(page):
    for block in blocks(page):
        if block.language in ("python", "py"):
            ast.parse(textwrap.dedent(block.text))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_on_a_page_exist_with_these_options(page):
    for command in commands_of(page):
        name, *rest = command
        assert name in COMMANDS, f"{page.name}: ottla {name}"
        parser = argparse.ArgumentParser(prog=f"ottla {name}", exit_on_error=False)
        import_module(COMMANDS[name][0]).add_arguments(parser)
        try:
            parser.parse_args(rest)
        except SystemExit as end:
            assert not end.code, f"{page.name}: ottla {shlex.join(command)} is not understood"


def commands_of(page):
    """Lines of shell blocks that begin with `ottla`, without what the shell does with them."""
    for block in blocks(page):
        if block.language not in ("bash", "sh", "console", ""):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            words = re.split(r"\s+(?:#|&|\||>|2>|<|&&|\.\.\.)(?:\s|$|.)", line.strip(), maxsplit=1)[0]
            if not words.startswith("ottla ") or any(mark in words for mark in "[<…"):
                continue
            split = shlex.split(os.path.expandvars(words))[1:]
            if split and not split[0].startswith("-") and split[0].islower():
                yield split
