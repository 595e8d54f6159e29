"""Log folders of Apache Kafka become ours, and ours become folders that Apache Kafka starts from."""
