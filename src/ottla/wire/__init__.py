"""The Kafka protocol as bytes: frames, messages, record batches. No I/O."""
