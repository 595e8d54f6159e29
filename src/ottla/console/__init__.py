"""The console in the browser: a process of its own that speaks to any Kafka."""
