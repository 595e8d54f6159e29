"""`python -m ottla.console.search_process`: a search that stands back behind others.

The broker may be on this machine. Priority is given away before anything large is imported: that takes half a second.
"""

import os
import sys

# A tenth of the weight of others. With less, a search on a busy machine would not end at all.
NICE = 10

if __name__ == "__main__":
    os.nice(NICE)
    from ottla.console.search_worker import main

    sys.exit(main())
