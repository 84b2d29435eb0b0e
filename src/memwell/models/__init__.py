"""Models: what turns text into vectors. The default is offline and comes with the package."""
