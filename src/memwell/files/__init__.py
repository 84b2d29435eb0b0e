"""Files of sessions: storage, text extraction, search and download links."""
