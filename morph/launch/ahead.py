"""Compiles the units of a public call in parallel, when it is first called."""

from __future__ import annotations

from typing import Any

from morph.language.hooks import Hook
from morph.runtime.device import Device

_begin: Hook[None] = Hook("morph.launch.common_units:compile_ahead")
_begun: set[tuple[str, str]] = set()


def compile_ahead(call: str, device: Device, graph: Any = None) -> None:
    """Begin to compile the units of a public call, unless this cache has compiled them before.

    Parameters
    ----------
    call : str
        The name of the call, and the types or options on which its units depend.
    device : Device
    graph : Graph, optional
        The graph of the call.  Units for graphs with other properties are not compiled.
    """
    if (call, device.name) not in _begun:
        _begun.add((call, device.name))
        if not device.interprets:
            _begin(call, device, graph)
