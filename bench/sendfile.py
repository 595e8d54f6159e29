"""Fetches from the page cache to a socket: `sendfile` beside a read and a write. See docs/decisions.

python -m bench.sendfile
"""

import multiprocessing
import os
import resource
import socket
import statistics
import tempfile
import time

FILE_BYTES = 256 << 20
ROUNDS = 5


def drain(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        buffer = bytearray(1 << 20)
        while sock.recv_into(buffer):
            pass


def by_sendfile(fd: int, sock: socket.socket, chunk: int) -> None:
    for start in range(0, FILE_BYTES, chunk):
        sent = 0
        while sent < chunk:
            sent += os.sendfile(sock.fileno(), fd, start + sent, chunk - sent)


def by_reading(fd: int, sock: socket.socket, chunk: int) -> None:
    for start in range(0, FILE_BYTES, chunk):
        sock.sendall(os.pread(fd, chunk, start))


def by_reading_again(fd: int, sock: socket.socket, chunk: int) -> None:
    """Into one buffer, as `storage/buffers.py` has them."""
    buffer = bytearray(chunk)
    for start in range(0, FILE_BYTES, chunk):
        os.preadv(fd, [buffer], start)
        sock.sendall(buffer)


WAYS = {"sendfile": by_sendfile, "read": by_reading, "read into": by_reading_again}


def measure(send, fd: int, chunk: int) -> tuple[float, float]:
    """(MB per second, CPU seconds per GB of this process)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        reader = multiprocessing.Process(target=drain, args=(server.getsockname()[1],))
        reader.start()
        sock, _ = server.accept()
        with sock:
            before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            send(fd, sock, chunk)
            took = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_SELF)
        reader.join()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return FILE_BYTES / took / 1e6, cpu / FILE_BYTES * 1e9


def main() -> None:
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(FILE_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        print(f"{'chunk':>8} {'way':>9} {'MB/s':>8} {'CPU s/GB':>9}")
        for chunk in (64 << 10, 1 << 20, 8 << 20):
            results: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
            for _ in range(ROUNDS):
                for way, send in WAYS.items():
                    results[way].append(measure(send, file.fileno(), chunk))
            for way, measured in results.items():
                rate, cpu = (statistics.median(column) for column in zip(*measured, strict=True))
                print(f"{chunk >> 10:>6}Ki {way:>9} {rate:8.0f} {cpu:9.2f}")


if __name__ == "__main__":
    main()
