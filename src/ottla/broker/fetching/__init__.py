"""What a fetch asks for, where it may read, and how it waits."""
