"""A Kafka client: a core without I/O, a blocking and an asyncio shell."""
