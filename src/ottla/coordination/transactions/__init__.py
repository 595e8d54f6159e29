"""The transaction coordinator and its markers."""
