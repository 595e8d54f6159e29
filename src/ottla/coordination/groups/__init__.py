"""Consumer groups: classic and consumer protocol, offsets, assignors."""
