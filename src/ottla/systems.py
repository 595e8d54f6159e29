"""Where what runs: brokers need Linux or macOS, clients run anywhere."""

import sys

NO_BROKER = (
    "brokers run on Linux and macOS. On Windows use the image or WSL; clients, tools and format('ottla') work here, "
    "with a broker elsewhere"
)


def refuse_windows(platform: str = sys.platform) -> None:
    """Instead of an error about a module that nobody has asked for."""
    if platform == "win32":
        raise ImportError(NO_BROKER)
