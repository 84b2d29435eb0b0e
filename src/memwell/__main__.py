"""`python -m memwell` is `memwell`."""

from .surfaces.cli.main import main

main()
