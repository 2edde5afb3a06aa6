"""Algorithms written in the language, one file each."""
