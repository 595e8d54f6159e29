"""A plain installation: what needs an extra says so in one line, and everything else works without."""

import subprocess
import sys

import pytest

from ottla.cli.extras import missing

# Packages that only extras bring, made impossible to import.
ABSENT = (
    "pyarrow",
    "pyspark",
    "pandas",
    "starlette",
    "uvicorn",
    "cryptography",
    "fastavro",
    "google.protobuf",
)


def without_extras(program: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as other tests have imported them here."""
    program = f"import sys\nsys.modules.update(dict.fromkeys({ABSENT!r}))\n{program}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_every_command_explains_itself_without_extras():
    done = without_extras(
        """
import contextlib, io
from ottla.cli.main import COMMANDS, main
for name in COMMANDS:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main([name, "--help"])
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_needs_an_extra_names_it():
    done = without_extras(
        "from ottla.cli.main import main\nsys.exit(main(['console', '--bootstrap', 'x:1']))"
    )
    assert done.returncode != 0 and done.stderr.strip().endswith("pip install 'ottla[console]'"), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_needs_no_extra(shell: str):
    done = without_extras(f"from ottla.cli.main import main\nsys.exit(main(['completion', '{shell}']))")
    assert done.returncode == 0, done.stderr
    assert (
        "--partitions" in done.stdout.replace("-l partitions", "--partitions") and "pipelines" in done.stdout
    )


def test_a_module_of_ours_that_is_missing_is_a_bug():
    with pytest.raises(ModuleNotFoundError):
        missing("topics", ModuleNotFoundError("No module named 'ottla.x'", name="ottla.x"))
