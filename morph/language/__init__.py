"""What a kernel's author writes with: types, intrinsics, decorators' definitions, source text.

Imports nothing of the package.
"""
