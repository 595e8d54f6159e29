"""Membership in a group: the new protocol, the classic one, and the classic one's assignors."""
