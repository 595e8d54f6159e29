"""The schema registry: Confluent's REST API over the topic `_schemas`."""
