"""The REST surface: every operation at its route, limits, live streams, and the server processes."""
