"""Surfaces: REST, the command line. Each is a loop over the registry, and by hand only what makes it pleasant."""
