"""None, or an object of another kind, as the first argument of each public function."""

import inspect
from dataclasses import is_dataclass

import pytest

import morph

OTHERS = {"set_device", "set_num_threads", "vec", "PartitionedArray"}  # or made inside
OTHERS |= {"PartitionedGraph", "compile"}


class Odd:
    def __repr__(self):
        return "<odd>"


def _functions():
    """The public functions with an argument, and how many they need."""
    places = [("", morph, morph.__all__)]
    for name in ("io", "validate", "survey", "generate", "worklists"):
        module = getattr(morph, name)
        places.append((f"{name}.", module, module.__all__))
    for prefix, module, names in places:
        for name in sorted({*names} - OTHERS):
            found = getattr(module, name)
            is_record = inspect.isclass(found) and issubclass(found, tuple | Exception)
            is_record = is_record or is_dataclass(found)
            if not callable(found) or is_record:
                continue
            try:
                parameters = inspect.signature(found).parameters.values()
            except (TypeError, ValueError):
                continue
            needed = [p for p in parameters if p.default is p.empty and p.kind in (0, 1)]
            if needed:
                yield pytest.param(found, len(needed), id=prefix + name)
    for kind, method in ((morph.Graph, "of"), (morph.Mesh, "of"), (morph.Pslg, "of")):
        yield pytest.param(getattr(kind, method), 1, id=f"{kind.__name__}.{method}")


@pytest.mark.parametrize("wrong", [None, Odd()], ids=["None", "odd"])
@pytest.mark.parametrize(("function", "needed"), [*_functions()])
def test_the_error_says_what_is_wrong(function, needed, wrong):
    """Not an AttributeError of the inside."""
    with pytest.raises((TypeError, ValueError)) as info:
        function(wrong, *[1] * (needed - 1))
    text = str(info.value)
    assert len(text) <= 200 and "has no attribute" not in text and "dtype=object" not in text


@pytest.mark.parametrize("call", [morph.refine, morph.triangulate, morph.Pslg.of])
def test_sources(call):
    with pytest.raises(TypeError, match="source is an array of points, a mesh, .*, not None"):
        call(None)
