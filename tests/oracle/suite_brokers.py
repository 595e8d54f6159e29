"""Several brokers for another project's tests, which start brokers themselves: until standard input ends.

    python -m tests.oracle.suite_brokers 3 [NAME=VALUE ...]

The first line says where they are.
"""

import sys

from tests.cluster.processes import ProcessCluster


def main() -> None:
    settings = dict(setting.split("=", 1) for setting in sys.argv[2:])
    with ProcessCluster(int(sys.argv[1]), session_ms=6000, proxied=False, **settings) as cluster:
        print(cluster.bootstrap, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
