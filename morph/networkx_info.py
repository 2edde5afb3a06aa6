"""Metadata of the backend ``morph``, read by NetworkX at import; see `morph.networkx_backend`."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

FILES = "betweenness", "cliques", "flows", "paths", "structure", "subgraphs"


def backend_info() -> dict[str, Any]:
    """Describe the backend and its functions, without importing NetworkX."""
    return {
        "backend_name": "morph",
        "project": "morph-engine",
        "package": "morph",
        "short_summary": "Parallel graph algorithms on the cores of a CPU or on an NVIDIA GPU.",
        "default_config": {"device": None},
        "functions": {name: {"additional_docs": text} for name, text in functions().items()},
    }


def functions() -> dict[str, str]:
    """Return the names of the functions, with the first lines of their docstrings."""
    found = {}
    for name in FILES:
        spec = importlib.util.find_spec("morph")
        assert spec is not None and spec.origin is not None
        file = Path(spec.origin).parent / "networkx_backend" / f"{name}.py"
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return dict(sorted(found.items()))
