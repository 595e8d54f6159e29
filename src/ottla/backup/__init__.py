"""Backups of a broker's log folders: taken while it runs or is stopped, restored into empty folders."""
