"""Node code: a function that runs in a process of its own and reaches memory only through its parent."""
