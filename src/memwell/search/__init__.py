"""Search: words, vectors, ranking and the index in memory."""
