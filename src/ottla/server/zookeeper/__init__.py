"""ZooKeeper: a client on the broker's own loop, the metadata log kept there, and servers to try it with."""
