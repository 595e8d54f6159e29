"""Figures of docs/benchmarks.md that sizes are computed from. `python -m bench.figures` copies them from the page."""

# Of the machine: all of them are busy in the measures of home care.
CORES = 2
MEASURED = {
    "home care: technician, 1,000,000 devices": 410_436.0,
    "home care: nurse, 1,000,000 devices": 254_571.0,
    "home care: billing, 1,000,000 devices": 138_537.0,
    "produce 100 B lz4, broker CPU per GB": 1.9,
    "consume 100 B lz4, broker CPU per GB": 0.3,
}
