"""PostgreSQL: capture of its changes through logical replication."""
