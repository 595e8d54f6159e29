"""SQL databases: a sink that upserts exactly once, a source that polls."""
