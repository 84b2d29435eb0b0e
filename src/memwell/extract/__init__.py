"""The text of uploaded files, read in a child process with limits of time, memory and output."""
