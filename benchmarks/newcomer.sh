#!/usr/bin/env bash
# What a new user waits for: four jobs, each from an empty folder, a fresh environment and empty caches
# to a checked result, with every command, its seconds by the clock and of processors.
#
#   benchmarks/newcomer.sh DEVICE PIP_ARGUMENTS...
#
#   benchmarks/newcomer.sh cpu -e .
#   benchmarks/newcomer.sh cuda --no-deps dist/morph_engine-*.whl
#
# PYTHON is the interpreter (python3), VENV the options of its venv, such as --system-site-packages.
set -uo pipefail
device=$1
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PYTHONPATH

TIMEFORMAT='%R %U %S'
step() { # a command, with its seconds: by the clock, of processors
    local status
    { time "$@" >$scratch/out.txt 2>&1; } 2>$scratch/time.txt
    status=$?
    awk -v what="$(tr '\n' ' ' <<<"$*" | cut -c1-100)" '{ printf "%7.2f s %7.2f  %s\n", $1, $2 + $3, what }' $scratch/time.txt
    case $status in 0 | 10) ;; *) echo "exit status $status" && tail -5 $scratch/out.txt ;; esac
}
job() { # name, then commands on standard input
    local begin=$EPOCHREALTIME
    mkdir -p "$scratch/$1/work"
    cd "$scratch/$1/work" || exit
    export MORPH_CACHE=$scratch/$1/morph CUPY_CACHE_DIR=$scratch/$1/cupy CUDA_CACHE_PATH=$scratch/$1/cuda
    echo "== $1"
    step "${PYTHON:-python3}" -m venv ${VENV:-} "$scratch/$1/venv"
    (
        PATH=$scratch/$1/venv/bin:$PATH
        cd "$root" && step pip install -q "${install[@]}"
        cd "$scratch/$1/work" && source /dev/stdin
        tail -2 $scratch/out.txt
    )
    printf '%7.2f s  in all\n' "$(awk "BEGIN { print $EPOCHREALTIME - $begin }")"
}
install=("$@")
export MORPH_DEVICE=$device

job mesh <<'END'
cat >plate.py <<'PYTHON'
import morph, numpy as np
points = [[0, 0], [4, 0], [4, 3], [0, 3], [1, 1], [2, 1], [2, 2], [1, 2]]
sides = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]
plate = morph.triangulate(points, segments=sides, holes=[[1.5, 1.5]])
size = lambda xy: 0.05 + 0.2 * np.hypot(xy[:, 0] - 1.5, xy[:, 1] - 1.5)
fine = morph.refine(plate, min_angle=30, size=size)
fine.check()
fine.write("fine")
print(len(plate.triangles), "->", len(fine.triangles), "triangles")
PYTHON
step python plate.py
step morph refine fine -q 33 -o finer
step morph check finer
END

job paths <<'END'
step morph generate rmat 16 --weight 1 100 -o g.gr.gz
step morph sssp g.gr.gz --source 0 -o distance.npz
step morph check g.gr.gz distance.npz
END

job changing <<'END'
cat >changing.py <<'PYTHON'
import morph, numpy as np
g = morph.generate.rmat(14, weight=(1, 100), seed=1)
paths = morph.DynamicSSSP(g, source=0)
rng = np.random.default_rng(0)
for _ in range(3):
    u, v = rng.integers(0, len(g.points), (2, 100))
    done = paths.apply(inserts=(u, v, rng.integers(1, 100, 100)))
morph.validate.sssp(paths.graph, paths.distance)
print(done.applied.inserted.size, "edges inserted, distances right")
PYTHON
step python changing.py
END

job formula <<'END'
step morph generate ksat 3 10000 4.2 -o f.cnf
step bash -c 'morph sat f.cnf >answer.txt'
step morph check f.cnf answer.txt
END
