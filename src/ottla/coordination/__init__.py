"""Coordinators of groups and transactions: state machines over shards of a log."""
