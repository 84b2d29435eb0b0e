"""The text of uploaded files.

PDF and DOCX are read in a child process with limits of time, memory and output. A bad file is a result, not an error.
"""
