"""What the cluster knows of itself: a state machine over one ordered log of small records."""
