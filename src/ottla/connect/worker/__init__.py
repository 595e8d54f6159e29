"""A worker: which connectors there are, what state they are in, and that they run."""
