"""What a command says when a package is missing that an extra of ours brings."""

OF_COMMAND = {
    "connect": "connect",
    "console": "console",
    "homecare": "spark",
    "mirror": "arrow",
    "pipelines": "spark",
    "registry": "registry",
    "streams": "spark",
}


def missing(command: str, error: ModuleNotFoundError) -> str:
    """A sentence that names the extra. A module of our own that is missing is a bug, and raised as such."""
    if (error.name or "ottla").partition(".")[0] == "ottla":
        raise error
    extra = OF_COMMAND.get(command, "all")
    return f"this command needs {error.name}: pip install 'ottla[{extra}]'"
