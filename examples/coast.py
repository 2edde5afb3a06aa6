"""Refine a coastline to good angles and small triangles, check the result exactly, draw it.

python examples/coast.py [MESH [PICTURE [DEVICE]]]
"""

import sys
from pathlib import Path

import morph

ITALY = Path(__file__).parent.parent / "meshes" / "italy.node"


def main(path=ITALY, picture="coast.png", device="auto"):
    mesh = morph.Mesh.read(path)
    fine = morph.refine(mesh, min_angle=30, max_area=mesh.quality().area / 300, device=device)
    fine.check()  # every invariant, in exact arithmetic
    for name, m in (("before", mesh), ("after", fine)):
        q = m.quality()
        print(f"{name:>6}: {q.triangles:5,} triangles, smallest angle {q.min_angle:5.2f} degrees")
    fine.plot(picture)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
