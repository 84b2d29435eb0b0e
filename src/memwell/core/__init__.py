"""The engine: operations, dispatch, spaces, access and events."""
