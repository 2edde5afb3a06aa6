"""The heat equation on a refined mesh: linear finite elements in space, Crank-Nicolson in time.

A hot spot spreads in a round plate with three holes, u_t = u_xx + u_yy.  At the rim u is given by
the solution in the whole plane, exp(-r^2 / 4t) / t, which so is the solution here, too.  The mesh
is fine around the spot, by a size field; halving all sizes (and the time step) must quarter the
error.

python examples/gallery/heat.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

import morph

SPOT = np.array([-0.35, 0.1])
BEGIN, END = 0.01, 0.05  # of time; the spot is a point at 0


def exact(points, time):
    return BEGIN / time * np.exp(-((points - SPOT) ** 2).sum(axis=1) / (4 * time))


def domain():
    """The rim of the plate and of its holes, as points and segments; a point in each hole."""
    points, segments = [], []
    holes = [[0.45, 0.35], [0.45, -0.35], [-0.3, -0.5]]
    for (x, y), radius, count in zip(
        [[0, 0], *holes], [1, 0.22, 0.22, 0.16], [96, 32, 32, 24], strict=True
    ):
        angle = np.arange(count) * (2 * np.pi / count)
        k = np.arange(count)
        segments.append(np.stack([k, (k + 1) % count], axis=1) + sum(map(len, points)))
        points.append(np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], axis=1))
    return np.concatenate(points), np.concatenate(segments), holes


def matrices(mesh):
    """Stiffness and mass matrices of linear elements, each (n, n)."""
    t, n = mesh.triangles, len(mesh.points)
    corners, area = mesh.points[t], mesh.areas()
    edges = np.roll(corners, -2, axis=1) - np.roll(corners, -1, axis=1)  # opposite each corner
    stiffness = np.einsum("tik,tjk->tij", edges, edges) / (4 * area[:, None, None])
    mass = (np.ones((3, 3)) + np.eye(3)) * (area[:, None, None] / 12)
    where = np.repeat(t, 3, axis=1).ravel(), np.tile(t, 3).ravel()
    return tuple(coo_array((v.ravel(), where), shape=(n, n)).tocsc() for v in (stiffness, mass))


def solve(mesh, steps):
    """Temperatures at the end, and their error in the mean-square norm, relative."""
    stiffness, mass = matrices(mesh)
    inner = np.ones(len(mesh.points), bool)
    inner[mesh.segments] = False
    step = (END - BEGIN) / steps
    left, right = mass + stiffness * (step / 2), mass - stiffness * (step / 2)
    factors = splu(left[inner][:, inner])
    u = exact(mesh.points, BEGIN)
    for k in range(1, steps + 1):
        load = right @ u
        u = exact(mesh.points, BEGIN + k * step)  # at the rim; the inside is solved for
        rim = np.where(inner, 0, u)
        u[inner] = factors.solve((load - left @ rim)[inner])
    true = exact(mesh.points, END)
    return u, np.sqrt((u - true) @ mass @ (u - true) / (true @ mass @ true))


def main(picture="heat.png", device="auto"):
    points, segments, holes = domain()
    rough = morph.triangulate(points, segments, holes, device=device)
    errors = []
    for scale in (1.0, 0.5):

        def size(places):
            return scale * (0.03 + 0.12 * np.hypot(*(places - SPOT).T))

        mesh = morph.refine(rough, min_angle=30, size=size, device=device)
        mesh.check()
        u, error = solve(mesh, steps=round(20 / scale))
        print(f"{len(mesh.points):6,} points, error {error:.2e}")
        errors.append(error)
        if scale == 1.0:
            figure = mesh.plot(values=u, label="temperature", cmap="inferno")
            figure.savefig(picture, dpi=80)
    assert errors[0] < 0.01 and errors[1] < 0.3 * errors[0]
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
