"""Sources that come with the package."""
