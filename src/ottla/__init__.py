"""Ottla: a streaming platform that speaks the Kafka protocol."""
