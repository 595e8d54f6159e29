"""Runs connectors: in threads of this process, or as Spark queries. Both run the same tasks."""
