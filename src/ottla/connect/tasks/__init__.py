"""What runs a connector: steps of exactly one transaction each, for Spark's workers and for plain threads."""
