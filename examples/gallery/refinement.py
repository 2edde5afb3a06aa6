"""Refinement in progress: a film, of which each frame has 40 points more.

Each call of `morph.refine` may add so many points, and goes on from the mesh of the last one.  Red
triangles have an angle below 30 degrees, yellow ones are larger than wanted, blue ones are good.

python examples/gallery/refinement.py [PICTURE [DEVICE]]
"""

import sys
from pathlib import Path

from PIL import Image, ImageDraw

import morph

ITALY = Path(__file__).parents[2] / "meshes" / "italy.node"
ANGLE, STEP = 30.0, 40  # degrees; points in each frame
COLOURS = {"paper": (255, 255, 255), "good": (174, 206, 232), "large": (249, 214, 122),
           "thin": (214, 80, 71), "ink": (40, 54, 85)}  # fmt: skip


def frame(mesh, area, height=440):
    """Draw a mesh, by Pillow, which is fast."""
    low, high = mesh.points.min(axis=0), mesh.points.max(axis=0)
    scale = (height - 9) / (high - low)[1]
    places = (mesh.points - [low[0], high[1]]) * [scale, -scale] + 4
    size = round((high - low)[0] * scale) + 9, height
    palette = dict(zip(COLOURS, range(len(COLOURS)), strict=True))
    image = Image.new("P", size, palette["paper"])
    image.putpalette([value for colour in COLOURS.values() for value in colour])
    draw = ImageDraw.Draw(image)
    thin, large = mesh.angles().min(axis=1) < ANGLE, mesh.areas() > area
    for k, corners in enumerate(places[mesh.triangles]):
        kind = "thin" if thin[k] else "large" if large[k] else "good"
        draw.polygon([tuple(c) for c in corners], palette[kind], palette["ink"])
    return image


def main(picture="refinement.gif", device="auto"):
    mesh = morph.Mesh.read(ITALY)
    area = mesh.quality().area / 900
    frames, before = [frame(mesh, area)], 0
    while len(mesh.points) > before:
        before = len(mesh.points)
        mesh = morph.refine(mesh, ANGLE, area, max_points=STEP, device=device)
        frames.append(frame(mesh, area))
    mesh.check()
    assert (mesh.areas() <= area).all()
    small = int((mesh.angles().min(axis=1) < ANGLE).sum())
    print(f"{len(frames) - 2} steps, {len(mesh.triangles):,} triangles, {small} with small angles")
    assert small < 10  # beside angles of the coast itself that are small
    times = [900, *[250] * (len(frames) - 3), 2500]  # ms; the last call added nothing
    frames[0].save(picture, "GIF", save_all=True, append_images=frames[1:-1], duration=times,
                   loop=0)  # fmt: skip
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
