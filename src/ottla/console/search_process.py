"""`python -m ottla.console.search_process`: a search that stands back behind others.

The broker may be on this machine. Priority is given away before anything large is imported: that takes half a second.
"""

import os
import sys

NICE = 10  # a tenth of the weight of others


def stand_back() -> None:
    """Where Linux has time to spare, a search takes what nobody else wants: others that wake up have the processor at
    once. On a busy machine it would not end like that, and has a small share instead."""
    os.nice(NICE)
    if hasattr(os, "SCHED_IDLE") and os.getloadavg()[0] < len(os.sched_getaffinity(0)):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    stand_back()
    from ottla.console.search_worker import main

    sys.exit(main())
