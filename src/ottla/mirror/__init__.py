"""Topics, settings and positions of groups from one cluster to another, exactly once. See docs/mirror.md."""
