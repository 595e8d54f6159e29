"""The pages of a broker: metrics for Prometheus, and its health."""
