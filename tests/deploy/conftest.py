"""The wheel and the image are made once for all tests of this folder."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import containers
from tests.deploy.containers import ROOT, Containers, command


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what goes into an sdist, so that a build leaves nothing in the checkout."""
    pytest.importorskip("build", reason="needs the group deploy-tests")
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder)
    unwanted = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=unwanted)
    return folder


@pytest.fixture(scope="session")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, source)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def image(wheel: Path) -> Iterator[Containers]:
    if (reason := containers.why_not()) is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="ottla-containers-", dir="/var/tmp"))
    made = Containers(folder)
    try:
        made.import_base()
        if (reason := made.why_none_runs()) is not None:
            pytest.skip(reason)
        made.build(containers.make_context(folder / "context", wheel))
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
