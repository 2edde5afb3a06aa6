"""Remake the pictures of the gallery: `python docs/pictures.py [NAME...]`.

Each script of `examples/gallery` draws its picture; PNGs are then reduced to a palette, so that all
of them together stay small.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from PIL import Image

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
COLOURS = (160, 48)  # the fewer for pictures that would be large
LARGE = 30_000  # bytes


def remake(script: Path) -> Path:
    """Run a script, and reduce the colours of its picture."""
    main = runpy.run_path(str(script))["main"]
    picture = script.parent / main.__defaults__[0]
    main(picture)
    if picture.suffix == ".png":
        drawn = Image.open(picture).convert("RGB")
        for colours in COLOURS:
            reduced = drawn.quantize(colours, dither=Image.Dither.NONE)
            reduced.save(picture, optimize=True)
            if picture.stat().st_size < LARGE:
                break
    return picture


if __name__ == "__main__":
    names = sys.argv[1:] or sorted(p.stem for p in GALLERY.glob("*.py"))
    for name in names:
        made = remake(GALLERY / f"{name}.py")
        print(f"{made.stat().st_size:,} bytes")
