"""One reader on one file, in a process of its own: MB/s and the peak of memory over the result.

    python benchmarks/reading.py morph.read_edges graph.gr

`files.py` and `graphfiles.py` run it for Morph and its peers, one after the other.  Memory is the
resident set above that of the process before it reads, pages of mapped files included; the result
is what is resident while it is held.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import table

PEERS = {
    ".node": ["np.loadtxt", "pandas.skip"],
    ".mtx": ["scipy.mmread"],
    ".wel": ["pandas"],
    ".npz": ["np.load", "scipy.load_npz"],
    ".egr": ["np.fromfile", "cat"],
    ".sgr": ["np.fromfile", "cat"],
}


def reader(name: str) -> Callable[[str], Any]:
    """Return a reader, whose libraries are loaded."""
    module, _, function = name.partition(".")
    if module == "morph":
        import morph.io
        from morph.cli.warm import LIBRARIES
        from morph.io.mesh.nodes import read_node

        for library in LIBRARIES:
            library.load()  # compiled before
        if function == "read_node":
            return partial(read_node, keep=True)
        return getattr(morph.io, function)  # of lazy attributes, so not in vars()
    if module == "np":
        return {
            "loadtxt": partial(np.loadtxt, skiprows=1),
            "load": lambda path: {k: v for k, v in np.load(path).items() if v.ndim},
            "fromfile": partial(np.fromfile, dtype=np.uint8),
        }[function]
    if module == "scipy":
        from scipy import io, sparse

        return {"mmread": io.mmread, "load_npz": sparse.load_npz}[function]
    if module == "pandas":
        import pandas

        rows = {"skiprows": 1} if function else {"comment": "#"}
        return partial(pandas.read_csv, sep=r"\s+", header=None, **rows)
    return lambda path: subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)


def resident(field: str) -> int:
    """Bytes of VmRSS or VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure(name: str, path: str, repeat: int) -> dict[str, Any]:
    """Read a file several times: the least of the seconds, memory of the first."""
    read = reader(name)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    base, seconds, processor, held, peak = resident("VmRSS"), [], [], 0, 0
    for k in range(repeat):
        start, used = time.perf_counter(), time.process_time()
        result = read(path)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
        if k == 0:
            held, peak = resident("VmRSS") - base, resident("VmHWM") - base
        del result
    files = [path] if os.path.exists(path) else [path + s for s in (".node", ".ele", ".poly")]
    size = sum(os.path.getsize(f) for f in files) / 1e6
    return {
        "reader": name, "file": os.path.basename(path), "MB": size, "seconds": min(seconds),
        "MB/s": size / min(seconds), "cpu s": min(processor), "held MB": held / 1e6,
        "peak / held": peak / held if held > 1e6 else float("nan"),
    }  # fmt: skip


def compare(names: list[str], path: Path | str, repeat: int = 3) -> None:
    """Run readers, the first of which is Morph's, and print them with their time over its."""
    rows: list[dict[str, Any]] = []
    for name in names:
        library = name.split(".")[0]
        if library not in ("np", "cat") and importlib.util.find_spec(library) is None:
            continue
        command = [sys.executable, __file__, name, str(path), "--repeat", str(repeat)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    for row in rows:
        row["time / Morph's"] = row["seconds"] / rows[0]["seconds"]
    table(rows)
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reader")
    parser.add_argument("path")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    print(json.dumps(measure(args.reader, args.path, args.repeat)))


if __name__ == "__main__":
    main()
