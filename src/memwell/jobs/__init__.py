"""Background work: the queue and the worker."""
