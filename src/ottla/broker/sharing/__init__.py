"""Share groups at the leader of a partition: what is delivered to whom, and where that is kept."""
