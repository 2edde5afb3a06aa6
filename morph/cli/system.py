"""``morph info``, ``morph cache`` and ``morph schema``."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform

import click

from morph import __version__
from morph.cli import schema as reports
from morph.cli.common import examples, json_option, print_report
from morph.runtime.device import DeviceError, device
from morph.runtime.toolchain import BuildError, cache, cpu

_UNITS = "kMG"


@click.command(epilog=examples("morph info", "morph info --json"))
@json_option
def info(as_json: bool) -> None:
    """Show versions, devices, compiler and cache."""
    packages = (
        "numpy",
        "click",
        "lazy-loader",
        "cupy",
        "nvidia-cuda-nvrtc",
        "meshio",
        "matplotlib",
    )
    try:
        compiler = cpu.compiler()
        found = f"{compiler.name} ({' '.join(compiler.command)})"
    except BuildError as error:
        found = str(error)
    facts = {
        "morph": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **{name: _version(name) for name in packages},
        "compiler": found,
        "devices": ["cpu", *_gpus()],
        "cache": str(cache.path()),
    }
    width = max(map(len, facts))
    lines = [
        f"{name:<{width}}  {', '.join(v) if isinstance(v, list) else v or 'not installed'}"
        for name, v in facts.items()
    ]
    print_report(facts, as_json, lines)


def _version(package: str) -> str | None:
    """Version of an installed package; some distributions are named after a CUDA version."""
    for name in (package, f"{package}-cuda13x", f"{package}-cuda12x", f"{package}-cu12"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _gpus() -> list[str]:
    """Return the names of available GPUs."""
    try:
        first = device("cuda")
    except DeviceError:
        return []
    runtime = first.xp.cuda.runtime
    names = (runtime.getDeviceProperties(k)["name"] for k in range(runtime.getDeviceCount()))
    return [f"cuda:{k} ({name.decode()})" for k, name in enumerate(names)]


@click.command("cache", epilog=examples("morph cache", "morph cache --clear"))
@click.option("--clear", is_flag=True, help="Remove all entries.")
@json_option
def cache_command(clear: bool, as_json: bool) -> None:
    """Show the cache of compiled kernels, or clear it; MORPH_CACHE moves it."""
    place = str(cache.path())
    if clear:
        removed = cache.clear()
        print_report(
            {"path": place, "removed": removed}, as_json, [f"{removed} entries removed: {place}"]
        )
        return
    entries, size = cache.entries(), cache.size()
    report = {
        "path": place,
        "bytes": size,
        "entries": [
            {"key": e.key, "name": e.name, "target": e.target, "bytes": e.size} for e in entries
        ],
    }
    lines = [f"{place}: {len(entries)} entries, {_bytes(size)}"]
    lines += [f"  {e.key[:12]}  {e.target:<6}  {_bytes(e.size):>8}  {e.name}" for e in entries]
    print_report(report, as_json, lines)


@click.command(epilog=examples("morph schema > morph.schema.json"))
def schema() -> None:
    """Print the JSON Schema of the reports of --json.

    All reports have the fields command, version, device, input, seconds and warnings.
    """
    click.echo(json.dumps(reports.schema(), ensure_ascii=False, indent=1))


def _bytes(size: float) -> str:
    unit = ""
    for larger in _UNITS:
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}B"
