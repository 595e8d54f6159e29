"""Topics, settings and positions from one cluster to another."""
