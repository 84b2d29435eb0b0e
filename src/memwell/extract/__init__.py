"""The text of uploaded files: which kinds are read (`kinds`), what a name may show (`names`), and the reading (`extract`).

PDF and DOCX are read in a process of their own with limits of time, memory and output; a bad file is a result, not an
error.
"""
