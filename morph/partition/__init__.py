"""Graphs over several devices: parts, which hold copies of each other's points."""
