"""Ports for servers that cannot pick one themselves."""

import socket


def free_ports(count):
    """Free now; below the range from which the kernel hands out ports, so that they stay so."""
    found, port = [], 22_200
    while len(found) < count:
        port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
