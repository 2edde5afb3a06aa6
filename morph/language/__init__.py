"""What a kernel's author writes with: dtypes, intrinsics, source capture, errors, hooks.

Imports nothing else of the package.
"""
