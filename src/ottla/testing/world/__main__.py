"""`python -m ottla.testing.world --seed 7` replays one world; `--seeds 0:1000` runs many."""

import argparse
import logging
import sys
import time

from ottla.testing.world.ledger import Broken
from ottla.testing.world.world import World


def main() -> int:
    parser = argparse.ArgumentParser(prog="ottla.testing.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="one world, with all that befell it")
    parser.add_argument("--seeds", default="0:200", metavar="FROM:TO", help="default: 0:200")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _replay(arguments.seed)
    logging.disable()  # disks fail all the time here
    begin, _, end = arguments.seeds.partition(":")
    return _many(range(int(begin), int(end)))


def _replay(seed: int) -> int:
    world = World(seed)
    try:
        world.run()
    except Broken as broken:
        print(broken)
        return 1
    print("\n".join(world.trace))
    print(f"seed {seed}: {world.events} events, all is well")
    return 0


def _many(seeds: range) -> int:
    began, failed = time.monotonic(), []
    for seed in seeds:
        try:
            World(seed).run()
        except Broken as broken:
            failed.append(seed)
            print(f"seed {seed}: {str(broken).splitlines()[0]}", flush=True)
    print(f"{len(seeds)} worlds in {time.monotonic() - began:.1f} s, {len(failed)} broken: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
