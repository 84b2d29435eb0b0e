"""The REST surface: every operation at its route, with what a server needs around it."""
