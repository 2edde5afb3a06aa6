"""The generated C++ of every unit is the recorded one, and compiles for sm_90 without a GPU.

These are all kernels and programs of the package, the examples and the pages.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import sm90
from golden import FILE

RECORDER = Path(__file__).parents[1] / "support" / "golden.py"


def by_unit(lines: list[str]) -> dict[str, set[str]]:
    found = defaultdict(set)
    for line in lines:
        unit, _, digest = line.rpartition(" ")
        found[unit].add(digest)
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The lines of today, and the texts of the units that are not checked."""
    # in a process of its own: the recorder replaces launches; hashes of strings differ, too
    texts = tmp_path_factory.mktemp("golden") / "texts.json"
    plain = {**os.environ, "MORPH_CHECK": "0"}
    command = [sys.executable, str(RECORDER), str(texts)]
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), json.loads(texts.read_text())


@pytest.mark.unchecked
def test_texts_are_the_recorded_ones(recorded):
    now, then = by_unit(recorded[0]), by_unit(FILE.read_text().splitlines())
    changed = [unit for unit in sorted(now | then) if now[unit] != then[unit]]
    assert not changed, (
        f"the texts of {len(changed)} units have changed:\n" + "\n".join(changed)
        + f"\nif they should: python tests/support/{RECORDER.name}, and say why in the commit"
    )  # fmt: skip


@pytest.mark.nvrtc
@pytest.mark.unchecked  # NVRTC takes minutes for so many checked texts
def test_texts_compile_for_sm_90(recorded):
    texts = recorded[1]
    assert len(texts) > 200 and any("is_raised(" in text for text in texts)
    sm90.compile_all(texts)
