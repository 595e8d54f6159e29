"""Configs, offsets and statuses in Connect's own topics, keys and JSON."""
