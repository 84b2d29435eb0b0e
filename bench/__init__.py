"""The cost of Memwell: each figure is compared with the bare limit, measured alternately in the same run."""
