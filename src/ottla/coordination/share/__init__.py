"""Share groups (KIP-932): what was delivered how often, and what it became."""
