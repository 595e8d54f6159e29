"""The partitions on this broker: created, led, removed, synced, expired, compacted."""
