"""The commit log: segments, indexes, recovery, retention, compaction. No I/O but through the Disk port."""
