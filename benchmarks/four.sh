#!/bin/bash
# All figures of partitioned graphs, meshes and formulas on one, two and four GPUs, in one run (limits: 330 s):
#
#     bash benchmarks/four.sh FOLDER        # logs, and rows for scaling.py
#
# First all units are compiled, by some 30 processes at once (60 cores); then each measurement has a
# limit of its own. Without GPUs: D4=cpu,cpu,cpu,cpu D2=cpu,cpu KIND=cpu S24=9 S26=8 S30=10 S18=9
# SMALL=8 MESHES="2e5 1e5 --lattice 2e5" FORMULAS=5e3 SLOW=10 bash benchmarks/four.sh FOLDER
L=$1 T0=$SECONDS KIND=${KIND:-cuda}
D4=${D4:-cuda:0,cuda:1,cuda:2,cuda:3} D2=${D2:-cuda:0,cuda:1}
S24=${S24:-24} S26=${S26:-26} S30=${S30:-30} S18=${S18:-18} SMALL=${SMALL:-12}
MESHES=${MESHES:-1e7 4e7 1.2e8 --lattice 5.4e8} FORMULAS=${FORMULAS:-1e7 3e7} SLOW=${SLOW:-1}
export MORPH_OPTIMIZE=${MORPH_OPTIMIZE:-full} MORPH_AFTER_EXIT=0 PYTHONUNBUFFERED=1 OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PYTHONPATH=$PWD:$PYTHONPATH
nccl=$(python3 -c "import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + '/lib')" 2>/dev/null)
export LD_LIBRARY_PATH=${nccl:+$nccl:}$LD_LIBRARY_PATH
mkdir -p "$L/gate"; rm -f "$L"/gate/*
at() { echo "== $1 at $((SECONDS - T0)) s"; }
limit() { timeout $(($1 * SLOW)) "${@:2}"; }
show() { stdbuf -oL cut -c1-250; }
parts() { python3 benchmarks/partitions.py --permute --by range --no-steps --devices "$D4" "$D2" "$@"; }
ranks() { mpiexec --oversubscribe --bind-to none -n "$1" python3 benchmarks/ranks.py --here --device $KIND --by range --permute "${@:2}"; }
follow() { # PID SECONDS NAME: let it begin, show its log, and end it
  touch "$L/gate/$3.go"; limit "$2" tail -n +1 -s .1 -f --pid="$1" "$L/$3" | show; kill "$1" 2>/dev/null; }
export -f parts ranks; export D4 D2 KIND

python3 benchmarks/four.py meshes "$D4" $MESHES --gate "$L/gate" > "$L/meshes" 2>&1 & M=$!
python3 benchmarks/four.py formulas "$D4" $FORMULAS --gate "$L/gate" > "$L/formulas" 2>&1 & F=$!
limit 110 python3 benchmarks/partitions.py --permute --by range --scale 10 --repeat 1 --only none \
  --changes 100 --devices "$D4" > "$L/compile-changes" 2>&1 & C=$!
W=""
for only in 1, levels,shortest pagerank morph.bfs morph.sssp morph.pagerank morph.betw morph.core; do
  for how in one parts; do
    limit 42 python3 benchmarks/four.py compile $how --permute --by range --no-steps --scale $SMALL \
      --devices "$D4" "$D2" --repeat 1 --only $only > "$L/compile-$only-$how" 2>&1 & W="$W $!"
  done
done
for n in 2 4; do for only in morph.bfs morph.pagerank morph.sssp; do
  limit 42 bash -c "ranks $n --scale $SMALL --repeat 1 --only $only" > "$L/compile-ranks-$n-$only" 2>&1 & W="$W $!"
done; done
limit 42 python3 benchmarks/four.py wide --scale $SMALL --permute --only bfs --sources 2 \
  --devices "$D4" > "$L/compile-wide" 2>&1 & W="$W $!"
wait $W
for _ in $(seq $((60 * SLOW))); do [ -e "$L/gate/meshes.ready" ] && [ -e "$L/gate/formulas.ready" ] && break; sleep .2; done
grep -H "Error" "$L"/compile-* | cut -c1-200; ls "$L/gate"

at "scale $S24"; limit 30 bash -c "parts --scale $S24 --repeat 5 --rows $L/rows" 2>&1 | tee "$L/scale-$S24" | show
at "scale $S26"; limit 32 bash -c "parts --scale $S26 --repeat 3 --rows $L/rows --only shortest,pagerank,morph.bfs,morph.sssp" 2>&1 | tee "$L/scale-$S26" | show
at "scale $S30"; limit 32 python3 benchmarks/large.py --permute --only bfs --devices "$D4" --scale $S30 --sources 13 2>&1 | tee "$L/scale-$S30" | show
at "DynamicSSSP"; kill -0 $C 2>/dev/null && echo "still compiling"
limit 14 bash -c "parts --scale $S18 --repeat 5 --only none --changes 1000" 2>&1 | tee "$L/changes" | show
at "refinement"; follow $M 28 meshes
at "3-SAT"; follow $F 30 formulas
for s in $S26 $S24; do for n in 4 2; do
  at "$n ranks, scale $s: ms and sums of pagerank, bfs, sssp; then as parts of one process"
  O="--scale $s --repeat 3 --only morph.pagerank,morph.bfs,morph.sssp"
  limit 18 bash -c "ranks $n $O" 2>&1 | head -n 1
  limit 18 bash -c "ranks 1 $O --parts $n" 2>&1 | head -n 1
done; done
at "the end"
