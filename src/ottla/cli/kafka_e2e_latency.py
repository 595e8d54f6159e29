"""`ottla kafka-e2e-latency`: with Apache Kafka's flags and output."""

from ottla.cli.kafka_perf import Latency

add_arguments, run = Latency.add_arguments, Latency.run
