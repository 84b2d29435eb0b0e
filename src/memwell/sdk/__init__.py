"""The Python API. `_async.py` is written by hand; `_sync.py` is generated from it (`make format`) and checked."""
