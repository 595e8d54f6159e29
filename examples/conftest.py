"""One Spark for all examples that use it: its start takes longer than they do."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark import session

    found = session("examples", cores=2, memory="768m")
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()
