"""The blocking shell: the core on a thread of its own, callers that wait for it."""
