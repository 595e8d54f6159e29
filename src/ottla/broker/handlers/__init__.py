"""One module for each family of APIs."""
