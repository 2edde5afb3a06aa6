"""Marriages between families of Florence: a small graph, drawn by `Graph.plot`.

The graph is that of Padgett and Ansell (1993).  The drawings show the numbers of marriages between
each family and the Medici (`morph.bfs`), and the core numbers (`morph.core_number`).

python examples/gallery/families.py [PICTURE [DEVICE]]
"""

import sys

from matplotlib.figure import Figure

import morph

MARRIAGES = """
Medici Acciaiuoli, Medici Barbadori, Medici Ridolfi, Medici Tornabuoni, Medici Albizzi, Medici
Salviati, Castellani Peruzzi, Castellani Strozzi, Castellani Barbadori, Peruzzi Strozzi, Peruzzi
Bischeri, Strozzi Ridolfi, Strozzi Bischeri, Ridolfi Tornabuoni, Tornabuoni Guadagni, Albizzi
Ginori, Albizzi Guadagni, Salviati Pazzi, Bischeri Guadagni, Guadagni Lamberteschi
"""


def main(picture="families.png", device="auto"):
    ends = [pair.split() for pair in MARRIAGES.split(",")]
    names = sorted({name for pair in ends for name in pair})
    src, dst = ([names.index(pair[k]) for pair in ends] for k in (0, 1))
    graph = morph.Graph.from_edges(src, dst, symmetrize=True, directed=False, device=device)
    graph.labels = names

    steps = morph.bfs(graph, "Medici").distance
    cores = morph.core_number(graph).core
    morph.validate.bfs(graph, steps, source=names.index("Medici"))
    morph.validate.core_number(graph, cores)
    far = [name for name, step in graph.by_label(steps).items() if step == steps.max()]
    print("farthest from the Medici:", ", ".join(far))
    assert far == ["Bischeri", "Lamberteschi", "Peruzzi"] and cores.max() == 2

    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    graph.plot(values=steps, label="marriages to the Medici", cmap="viridis_r", ax=left)
    graph.plot(values=cores, label="core number", cmap="plasma", ax=right)
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
