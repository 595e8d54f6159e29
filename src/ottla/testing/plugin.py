"""Fixtures for users. Imports nothing of ours until a fixture is used."""
