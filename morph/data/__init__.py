"""Typed columns in growable memory on a device; tables and collections of them."""
