"""The building blocks of kernels: dtypes, intrinsics, source capture, errors, hooks.

Imports no other part of the package.
"""
