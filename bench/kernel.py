"""How fast the kernel is on this machine. Run: python bench/kernel.py [--plain]"""

import sys
import time
from collections.abc import Callable

from ottla.wire import batch, kernel, kernel_py
from ottla.wire.records import Record

COUNT = 10_000


def seconds(work: Callable[[], object], at_least: float = 0.3) -> float:
    """The best time of one call, over repetitions that fill `at_least` seconds."""
    best, spent = float("inf"), 0.0
    while spent < at_least:
        start = time.perf_counter()
        work()
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
    return best


def main() -> None:
    plain = "--plain" in sys.argv
    subject = kernel_py if plain else kernel
    records = [Record(i, 1_000 + i, b"key %08d" % i, b"v" * 100) for i in range(COUNT)]
    data = batch.build(records)
    payload = data[batch.HEADER_BYTES :]
    mebibyte, small = bytes(1 << 20), batch.build(records[:10])
    many_small = small * 1_000
    rows = (
        ("crc32c, 1 MiB", (1 << 20) / 1e9, "GB/s", lambda: subject.crc32c(mebibyte)),
        ("walk, 100 B records", COUNT / 1e6, "M/s", lambda: subject.walk(payload, COUNT, consecutive=True)),
        ("index", COUNT / 1e6, "M/s", lambda: subject.index(payload, COUNT)),
        (
            "find_record, last",
            COUNT / 1e6,
            "M/s",
            lambda: subject.find_record(payload, COUNT, 0, 2**62),
        ),
        ("validate, 1.1 MB batch", COUNT / 1e6, "M/s", lambda: subject.validate(data)),
        ("validate, 10 records", 1e-6, "M batches/s", lambda: subject.validate(small)),
        ("scan headers", 1e-3, "M batches/s", lambda: subject.scan(many_small)),
        ("encode", COUNT / 1e6, "M/s", lambda: subject.encode(records, 0, 1_000)),
        ("murmur2, 12 B", 1e-6, "M/s", lambda: subject.murmur2(b"key 00000000")),
    )
    print(f"kernel: {'C' if subject is kernel and kernel.COMPILED else 'Python'}")
    for name, amount, unit, work in rows:
        print(f"{name:24} {amount / seconds(work):10.3f} {unit}")


if __name__ == "__main__":
    main()
