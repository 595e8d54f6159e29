"""Contracts of topics: records must name a registered schema, or be what it says."""
