"""The transaction coordinator: a state machine over one shard of `__transaction_state`."""
