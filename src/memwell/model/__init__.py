"""Values: frozen, without I/O. Everything else is written in terms of them."""
