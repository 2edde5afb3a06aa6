"""Finalisers of hash functions: bijections; each result bit depends on all argument bits."""

from __future__ import annotations

from morph.launch.foreach import func
from morph.prelude import u32


@func
def mix64(x):
    """The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), of a u64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@func
def unmix64(x):
    """The inverse of `mix64`."""
    x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642B2D24D8EC3
    x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96DE1B173F119089
    return x ^ (x >> 30) ^ (x >> 60)


@func
def mix32(x):
    """The finaliser of MurmurHash3, of a u32."""
    x = (x ^ (x >> u32(16))) * u32(0x85EBCA6B)
    x = (x ^ (x >> u32(13))) * u32(0xC2B2AE35)
    return x ^ (x >> u32(16))
