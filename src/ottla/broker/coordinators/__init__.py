"""Shards of groups and transactions that this broker leads."""
