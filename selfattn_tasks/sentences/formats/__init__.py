"""Readers of the files that sentences come in; ``reading`` finds out which one a file needs."""
