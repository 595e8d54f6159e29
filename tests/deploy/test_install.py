"""What `pip install ottla` gives: a wheel that needs no compiler, a complete sdist; and workflows that lint."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest

import ottla
from tests.deploy.brokers import Process
from tests.deploy.containers import ROOT, command
from tests.integration import test_readme

SIZE_MAX = 15_000_000
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def bare_environment(folder, *wheels, find=()):
    """A new environment with the wheel and what it needs, and with nothing that compiles."""
    command(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    links = [part for each in find for part in ("--find-links", each)]
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--only-binary", ":all:", *links, *wheels],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "CC": "/bin/false"},
    )
    assert done.returncode == 0, done.stderr
    return python


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    return bare_environment(tmp_path_factory.mktemp("bare") / "venv", wheel)


def test_a_broker_of_the_wheel_answers(environment, tmp_path):
    with (
        Process(tmp_path / "data", python=str(environment)) as broker,
        ottla.Producer(bootstrap_servers=broker.bootstrap) as producer,
    ):
        assert producer.send("greetings", "hello").result(60).offset == 0


def test_the_doors_of_the_readme_open_with_nothing_but_what_it_says_to_install(wheel, tmp_path):
    named = re.search(r"`pip install ottla ([a-z -]+)`", test_readme.README)
    assert named is not None
    python = bare_environment(tmp_path / "venv", wheel, *named[1].split())
    for door in ("tests", "commands"):
        (tmp_path / door).mkdir()
    test_readme.run_the_tests(tmp_path / "tests", str(python))
    test_readme.run_the_commands(tmp_path / "commands", f"{python.parent}:/usr/bin:/bin")
    spark = test_readme.README.partition("**You work with Spark.**")[2].partition("```")[0]
    assert 'pip install "ottla[spark]"' in spark


def broker_versions(python):
    done = command(python, "-m", "ottla", "--version", "--verbose")
    return dict(line.split(" ", 1) for line in done.splitlines())


def test_the_wheel_has_the_kernel_and_is_for_every_python_from_3_11_on(environment, wheel):
    assert broker_versions(environment)["kernel"] == "compiled"
    assert "-cp311-abi3-" in wheel.name


def test_what_pip_downloads_is_small(wheel, tmp_path):
    command(sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "-d", tmp_path, wheel)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size < SIZE_MAX, f"{size / 1e6:.1f} MB"


@pytest.fixture(scope="module")
def pure_wheel(source, tmp_path_factory):
    """Built where there is no compiler."""
    folder, clean = tmp_path_factory.mktemp("pure"), tmp_path_factory.mktemp("clean") / "source"
    shutil.copytree(source, clean, ignore=shutil.ignore_patterns("build", "*.egg-info"))  # of the other wheel
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(clean)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "CC": "/bin/false"},
    )
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_without_a_compiler_it_is_a_wheel_for_every_system(pure_wheel):
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(pure_wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    assert "ottla/py.typed" in names and any(name.endswith("licenses/LICENSE") for name in names)


def test_the_sdist_has_all_that_a_build_and_a_packager_need(source, tmp_path):
    complete = tmp_path / "complete"
    shutil.copytree(source, complete)
    for name in ("docs", "deploy", "examples", "tools", "tests", "bench"):
        shutil.copytree(ROOT / name, complete / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("CHANGELOG.md", "Makefile", "mkdocs.yml"):
        shutil.copy(ROOT / name, complete)
    command(
        sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", tmp_path / "dist", complete
    )
    (path,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = {
        "src/ottla/wire/_kernel.h",
        "src/ottla/wire/_kernel.c",
        "LICENSE",
        "CHANGELOG.md",
        "docs/design.md",
    }
    wanted |= {"deploy/Dockerfile", "tests/conftest.py", "examples/conftest.py", "Makefile"}
    assert not wanted - names
    assert not [name for name in names if name.endswith(".so")]


LICENCES = re.compile(r"Apache|BSD|MIT|PSF|Python Software Foundation|ISC", re.IGNORECASE)


def test_licences_of_what_is_installed_are_free_and_listed():
    page = (ROOT / "docs" / "deployment.md").read_text()
    for requirement in requires("ottla") or ():
        if "extra ==" in requirement:
            continue
        name = re.split(r"[ ;<>=\[(]", requirement)[0]
        assert LICENCES.search(licence(name)), f"{name}: {licence(name)}"
        assert f"| {name} |" in page


def licence(name):
    about = distribution(name).metadata
    said = [about[each] for each in ("License-Expression", "License") if each in about]
    return " ".join(
        [*said, *(each for each in about.get_all("Classifier") or () if each.startswith("License"))]
    )


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


def test_zizmor_finds_nothing_in_the_workflows():
    program = shutil.which("zizmor", path=PATH)
    if program is None:
        pytest.skip("needs zizmor (group deploy-tests)")
    command(program, "--offline", *WORKFLOWS)


def test_actionlint_finds_nothing_in_the_workflows():
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("needs actionlint (go install github.com/rhysd/actionlint/cmd/actionlint@latest)")
    command(program, *WORKFLOWS)


def test_hadolint_finds_nothing_in_the_dockerfile():
    program = shutil.which("hadolint", path=PATH)
    if program is None:
        pytest.skip("needs hadolint (group deploy-tests)")
    command(program, ROOT / "deploy" / "Dockerfile")


def test_workflows_and_wheels_are_for_the_same_pythons():
    yaml = pytest.importorskip("yaml", reason="needs the group deploy-tests")
    matrix = yaml.safe_load((ROOT / ".github/workflows/test.yaml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text()
