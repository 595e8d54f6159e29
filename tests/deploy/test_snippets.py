"""Every block of code on a page is run, or stands in a list with the reason why not."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from ottla.testing import Broker
from tests.deploy.pages import PATH, ROOT, Block, blocks
from tests.deploy.snippets import NOT_RUN, PYTEST, PYTHON, SHELL, SPARK, Shell, Where
from tests.deploy.test_pages import PAGES
from tests.oracle.ports import free_ports

TUTORIALS = (
    "docs/tutorial-testing.md",
    "docs/tutorial-spark.md",
    "docs/tutorial-cluster.md",
)  # test_pages.py
_COMMAND = re.compile(r"^\$? ?(ottla|pip|docker|kubectl|psql|curl|echo|kafka-\S+\.sh) ", re.M)
_PRELUDE = """set -euo pipefail
endless() {
  { set +x; } 2> /dev/null
  local condition=$1 pid code=0
  "${@:2}" < /dev/null > endless.out 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    if eval "$condition" || ! kill -0 $pid 2> /dev/null; then break; fi
    sleep 0.1
  done
  eval "$condition" || { cat endless.out; return 9; }
  kill -TERM $pid 2> /dev/null || true
  wait $pid || code=$?
  case $code in 0|130|143) ;; *) cat endless.out; return $code ;; esac
  set -x
}
start_own() {
  ottla start --port "$OWN_PORT" "$@" > own.log 2>&1 &
  until grep -q ready own.log; do sleep 0.05; done
  export OTTLA_BOOTSTRAP=127.0.0.1:$OWN_PORT
}
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
"""


def all_blocks() -> Iterator[tuple[Where, Block]]:
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        if name not in TUTORIALS:
            for block in blocks(page):
                yield (name, block.text.strip().splitlines()[0][:50].rstrip()), block


BLOCKS = dict(all_blocks())


def is_code(block: Block) -> bool:
    if block.language in ("python", "py"):
        return True
    return block.language in ("bash", "sh", "console", "") and bool(_COMMAND.search(block.text))


def test_every_block_is_run_or_has_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    code = {where for where, block in BLOCKS.items() if is_code(block)}
    listed = [*PYTHON, *PYTEST, *SHELL, *SPARK, *NOT_RUN]
    assert len(BLOCKS) == len(list(all_blocks())), "two blocks of a page begin with the same line"
    assert len(listed) == len(set(listed)), "a block is listed twice"
    assert code - set(listed) == set(), (
        "a block is neither run nor given a reason; see tests/deploy/snippets.py"
    )
    assert set(listed) - code == set(), "a block is listed that no page has"
    with capsys.disabled():
        print(f"\n{len(listed) - len(NOT_RUN)} blocks are run here, {len(NOT_RUN)} elsewhere or not:")
        for (page, line), reason in sorted(NOT_RUN.items()):
            print(f"  {page}, {line}: {reason}")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as shared:
        yield shared


@pytest.mark.parametrize("page", sorted({page for page, _ in PYTHON}))
def test_python_of_a_page_runs(
    page: str, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    namespace = module.__dict__
    for where in [where for where in BLOCKS if where in PYTHON and where[0] == page]:
        snippet = PYTHON[where]
        text = replaced(textwrap.dedent(BLOCKS[where].text), snippet.replaced)
        for part in (snippet.before, text, snippet.after):
            _execute(replaced(part, _addresses(broker)), f"{page}: {where[1]}", namespace)


def _execute(text: str, name: str, namespace: dict[str, object]) -> None:
    code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, namespace)
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_python_for_spark_runs(tmp_path: Path) -> None:
    """In a program of its own: classes of its main module travel to Spark's workers."""
    pytest.importorskip("pyspark", reason="needs the extra spark")
    parts = []
    for where, snippet in SPARK.items():
        text = replaced(BLOCKS[where].text, snippet.replaced)
        parts += [f"print({': '.join(where)!r}, flush=True)", snippet.before, text, snippet.after]
    with Broker(registry=True) as running:
        addresses = {**_addresses(running), "http://localhost:8081": running.registry}
        (tmp_path / "blocks.py").write_text(replaced("\n".join([*parts, "spark.stop()"]), addresses))
        done = subprocess.run(
            [sys.executable, "blocks.py"], cwd=tmp_path, timeout=800, capture_output=True, text=True,
            env={**os.environ, "PATH": PATH},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_tests_of_pages_run_under_pytest(tmp_path: Path) -> None:
    for number, (where, before) in enumerate(PYTEST.items()):
        (tmp_path / f"test_page_{number}.py").write_text(f"{before}\n{BLOCKS[where].text}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and re.search(r"\b6 passed", done.stdout), done.stdout[-3000:]


def test_commands_of_pages_run(broker: Broker, tmp_path: Path) -> None:
    """All pages at the same time: most of it is waiting."""
    with Broker() as other, Broker(registry=True) as schemas, ThreadPoolExecutor(4) as pool:
        environment = {
            "OTTLA_BOOTSTRAP": broker.bootstrap,
            "OTHER": other.bootstrap,
            "REGISTRY": schemas.registry,
            "REGISTRY_BROKER": schemas.bootstrap,
        }
        runs = {
            where: pool.submit(_run, where, shell, tmp_path / str(number), environment, _addresses(broker))
            for number, (where, shell) in enumerate(SHELL.items())
        }
        failures = {where: failure for where, run in runs.items() if (failure := run.result())}
    assert not failures, "\n".join(f"{where}:\n{text}" for where, text in failures.items())


def _run(
    where: Where, shell: Shell, folder: Path, environment: Mapping[str, str], addresses: Mapping[str, str]
) -> str:
    """What it printed if it failed."""
    folder.mkdir()
    (port,) = free_ports(1)
    script = "\n".join([_PRELUDE, "set -x", shell.before, *_lines(where, shell, addresses), shell.after])
    (folder / "page.sh").write_text(script)
    with (folder / "printed").open("w+") as printed:  # a pipe would be waited for while anybody has it open
        code = subprocess.run(
            ["bash", "page.sh"], cwd=folder, timeout=240, stdout=printed, stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": PATH, "OWN_PORT": str(port), **environment},
        ).returncode  # fmt: skip
    return (folder / "printed").read_text()[-3000:] if code else ""


def _lines(where: Where, shell: Shell, addresses: Mapping[str, str]) -> Iterator[str]:
    text = replaced(BLOCKS[where].text, shell.replaced)
    for line in replaced(text, addresses).splitlines():
        command = re.sub(r"\s+#.*$", "", line.removeprefix("$ "))
        if not command or command.startswith(("#", *shell.dropped)):
            continue
        conditions = [condition for begin, condition in shell.endless.items() if command.startswith(begin)]
        yield f"endless {shlex.quote(conditions[0])} {command}" if conditions else command


def _addresses(broker: Broker) -> dict[str, str]:
    return {"localhost:9092": broker.bootstrap, "127.0.0.1:9092": broker.bootstrap}


def replaced(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        text = text.replace(old, new)
    return text
