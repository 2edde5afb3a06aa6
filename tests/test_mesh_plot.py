"""Pictures of meshes, looked at pixel by pixel."""

from pathlib import Path

import pytest

from morph.mesh import Mesh

MESHES = Path(__file__).parent.parent / "meshes"


def test_plot(tmp_path):
    pytest.importorskip("matplotlib")
    Mesh.read(MESHES / "italy").plot(tmp_path / "italy.png")
    assert (tmp_path / "italy.png").read_bytes()[1:4] == b"PNG"
