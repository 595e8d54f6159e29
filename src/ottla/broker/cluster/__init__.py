"""This broker among others: the controller, leaders it follows, who is in sync."""
