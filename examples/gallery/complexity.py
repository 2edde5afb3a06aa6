"""The threshold of random 3-SAT: how many clusters of models there are.

Survey propagation gives the complexity of a formula, the logarithm of the number of clusters of its
models.  For random formulas it falls with the number of clauses, and is zero at about 4.27 clauses
a variable, where models cease to exist.

python examples/gallery/complexity.py [PICTURE [DEVICE]]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import morph

VARIABLES, THRESHOLD = 4000, 4.267
RATIOS = np.arange(4.0, 4.21, 0.04)


def main(picture="complexity.png", device="auto"):
    found = []
    for ratio in RATIOS:
        formula = morph.generate.random_ksat(3, VARIABLES, ratio, seed=2)
        surveys = morph.survey.surveys(formula, seed=1, max_sweeps=2000, device=device)
        assert surveys.converged
        found.append(surveys.complexity / VARIABLES)
        print(f"{ratio:.2f} clauses a variable: complexity {found[-1]:.5f} a variable")
    slope, height = np.polyfit(RATIOS, found, 1)
    print(f"a line through them is 0 at {-height / slope:.3f}")
    assert slope < 0 and abs(-height / slope - THRESHOLD) < 0.1

    figure = Figure(figsize=(6.4, 4), layout="constrained")
    ax = figure.add_subplot()
    line = np.array([RATIOS[0], THRESHOLD + 0.02])
    ax.plot(line, slope * line + height, "--", color="#8d99ae", linewidth=1)
    ax.plot(RATIOS, found, "o", color="#3b5b92")
    ax.axvline(THRESHOLD, color="#d62828", linewidth=1)
    ax.text(THRESHOLD - 0.005, max(found), "models cease to exist", rotation=90, va="top",
            ha="right", color="#d62828", fontsize=9)  # fmt: skip
    ax.axhline(0, color="k", linewidth=0.6)
    ax.set(xlabel="clauses a variable", ylabel="complexity a variable")
    ax.set_title(f"one random formula of {VARIABLES:,} variables at each point", fontsize=10)
    figure.savefig(picture, dpi=80)
    print(f"drawn: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
