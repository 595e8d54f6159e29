"""Connectors: data in and out of topics, with the REST API of Kafka Connect."""
