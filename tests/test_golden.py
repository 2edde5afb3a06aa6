"""The generated C++ of every unit is the recorded one; changes of it are made on purpose."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from golden import FILE

RECORDER = Path(__file__).parent / "golden.py"


def by_unit(lines: list[str]) -> dict[str, set[str]]:
    found = defaultdict(set)
    for line in lines:
        unit, _, digest = line.rpartition(" ")
        found[unit].add(digest)
    return found


@pytest.mark.unchecked
def test_texts_are_the_recorded_ones():
    # in a process of its own: the recorder replaces launches; hashes of strings differ, too
    command = [sys.executable, str(RECORDER), "--print"]
    plain = {**os.environ, "MORPH_CHECK": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr
    now, then = by_unit(done.stdout.splitlines()), by_unit(FILE.read_text().splitlines())
    changed = [unit for unit in sorted(now | then) if now[unit] != then[unit]]
    assert not changed, (
        f"the texts of {len(changed)} units have changed:\n" + "\n".join(changed)
        + f"\nif they should: python tests/{RECORDER.name}, and say why in the commit"
    )  # fmt: skip
