"""Memory banks: entries partitioned by keys, searched, loaded in order and compacted."""
