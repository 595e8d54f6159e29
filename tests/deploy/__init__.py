"""Image, compose, manifests, installation, backup: each is run, not only read."""
