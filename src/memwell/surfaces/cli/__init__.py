"""The command line: everyday commands by hand, one generated command for every operation."""
