"""`python -m ottla.testing.world --seed 7` replays one world; `--seeds 0:1000` runs many."""

import argparse
import logging
import sys
import time

from ottla.testing.world.ledger import Broken
from ottla.testing.world.real import ClientWorld
from ottla.testing.world.world import World

WORLDS = {world.name: world for world in (World, ClientWorld)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="ottla.testing.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="one world, with all that befell it")
    parser.add_argument("--seeds", default="0:200", metavar="FROM:TO", help="default: 0:200")
    parser.add_argument(
        "--world",
        choices=sorted(WORLDS),
        default=World.name,
        help="scripted clients alone, or our own client beside them (default: %(default)s)",
    )
    arguments = parser.parse_args()
    kind = WORLDS[arguments.world]
    if arguments.seed is not None:
        return _replay(kind, arguments.seed)
    logging.disable()  # disks fail all the time here
    begin, _, end = arguments.seeds.partition(":")
    return _many(kind, range(int(begin), int(end)))


def _replay(kind: type[World], seed: int) -> int:
    world = kind(seed)
    try:
        world.run()
    except Broken as broken:
        print(broken)
        return 1
    print("\n".join(world.trace))
    print(f"seed {seed}: {world.events} events, all is well")
    return 0


def _many(kind: type[World], seeds: range) -> int:
    began, failed = time.monotonic(), []
    for seed in seeds:
        try:
            kind(seed).run()
        except Broken as broken:
            failed.append(seed)
            print(f"seed {seed}: {str(broken).splitlines()[0]}", flush=True)
    print(
        f"{len(seeds)} {kind.name} worlds in {time.monotonic() - began:.1f} s, {len(failed)} broken: {failed}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
