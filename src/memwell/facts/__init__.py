"""Facts: statements extracted from turns, with their evidence."""
