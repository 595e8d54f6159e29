"""A full screen in a terminal: plain codes, no library."""
