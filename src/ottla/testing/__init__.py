"""A real broker inside a test, with faults and a clock that the test controls."""
