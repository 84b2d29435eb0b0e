"""Records: JSON values at an address, checked by a schema, with versions and a lifetime."""
