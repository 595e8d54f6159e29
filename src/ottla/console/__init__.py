"""The console: a cluster in the browser. It speaks the Kafka protocol as a client and runs in a process of its own."""
