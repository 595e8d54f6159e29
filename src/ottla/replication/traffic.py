"""What goes in and out of a topic on this broker: plain numbers, shared by its partitions."""


class Traffic:
    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = 0
        self.replication_bytes_in = self.replication_bytes_out = 0
        self.produces = self.fetches = 0  # partitions of requests, as Kafka counts them
        self.failed_produces = self.failed_fetches = 0

    def add(self, other: "Traffic") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
