"""`ottla kafka-producer-perf-test`: with Apache Kafka's flags and output."""

from ottla.cli.kafka_perf import ProducerTest

add_arguments, run = ProducerTest.add_arguments, ProducerTest.run
