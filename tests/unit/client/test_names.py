"""What `import ottla` offers."""

import subprocess
import sys
from importlib.metadata import version

import ottla


def test_everything_public_is_listed_and_can_be_had() -> None:
    assert set(ottla.__all__) <= set(dir(ottla))
    assert {"Producer", "Consumer", "Admin", "NewTopic", "OttlaError", "aio", "testing", "errors"} <= set(
        dir(ottla)
    )
    for name in ottla.__all__:
        assert getattr(ottla, name) is not None


def test_the_version_is_the_packages() -> None:
    assert ottla.__version__ == version("ottla")


def test_asking_for_names_imports_only_what_brings_them_later() -> None:
    code = "import sys, ottla; dir(ottla); print([m for m in sys.modules if m.startswith('ottla.')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout == "['ottla.lazy']\n"
