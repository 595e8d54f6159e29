"""Who a client is and what it may do: rules, mechanisms, tokens, quotas. Free of I/O; time is passed in."""
