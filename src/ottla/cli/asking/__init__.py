"""What commands ask of a cluster. Nothing here prints: `ottla ...` and `kafka-*` have words of their own."""
