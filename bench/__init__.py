"""The cost of Memwell: each figure beside the bare limit that was measured in the same run, alternating with it."""
