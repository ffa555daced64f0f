"""A comparison as tables, for the terminal and for files, and as pictures."""
