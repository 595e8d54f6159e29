"""`ottla kafka-consumer-perf-test`: with Apache Kafka's flags and output."""

from ottla.cli.kafka_perf import ConsumerTest

add_arguments, run = ConsumerTest.add_arguments, ConsumerTest.run
