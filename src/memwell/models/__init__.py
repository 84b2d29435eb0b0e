"""Models: embedders, which turn text into vectors, and language models. The default embedder works offline."""
