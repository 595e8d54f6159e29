"""A file with an application: found and imported so that its functions travel to Spark's workers."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from ottla.streams.app import App
from ottla.streams.errors import BadTopology

MODULE = "ottla_streams_program"


def load(path: str | Path, name: str | None = None) -> App:
    """The app in a Python file; if there are several, the one with this name."""
    file = Path(path)
    if not file.is_file():
        raise BadTopology(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(MODULE, file)
    if spec is None or spec.loader is None:
        raise BadTopology(f"{file} is not a Python file; its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return _chosen(file, module, name)


def ship() -> None:
    """Workers cannot import the file: its functions travel by value."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[MODULE])  # type: ignore[no-untyped-call]


def _chosen(file: Path, module: Any, name: str | None) -> App:
    apps = {app.name: app for app in vars(module).values() if isinstance(app, App)}
    if not apps:
        raise BadTopology(f"{file} has no App at its top level")
    if name is not None and name not in apps:
        raise BadTopology(f"{file} has no app {name}; it has {', '.join(apps)}")
    if name is None and len(apps) > 1:
        raise BadTopology(f"{file} has several apps: {', '.join(apps)}; choose one with --app")
    return apps[name] if name is not None else next(iter(apps.values()))
