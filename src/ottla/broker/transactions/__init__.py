"""Where transactions meet partitions: admission of writes, markers, producer ids."""
