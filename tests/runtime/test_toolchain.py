"""Compilation for both targets, and the cache of compiled units."""

import ctypes
import json
import lzma
import multiprocessing
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import precompiled
import pytest
from click.testing import CliRunner

from morph.cli import main
from morph.compiler.codegen.prelude import prelude
from morph.data import sorting
from morph.graph import reverses
from morph.io.text import clauses, numbers
from morph.mesh import compiled as mesh
from morph.runtime.cuda import modules
from morph.runtime.device import DeviceError
from morph.runtime.toolchain import (
    CacheUnusable,
    CompileError,
    CompilerNotFound,
    OutOfTime,
    cache,
    cpu,
    cuda,
    deadline,
    shipped,
    tiers,
)
from morph.runtime.toolchain.library import HostLibrary

ADD = 'extern "C" int add(int a, int b) { return a + b; }\n'
SCALE = 'extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= 2; }\n'

PROGRAM, *OPTIONS = cpu.compiler().command
REAL = shlex.join([shutil.which(PROGRAM) or PROGRAM, *OPTIONS])  # never a wrapper made here


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """An empty cache, and a compiler nothing is known about."""
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cpu, "_known", {})
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch):
    """The list of texts that really went to the C++ compiler."""
    seen = []
    real = cpu._compile
    monkeypatch.setattr(
        cpu, "_compile", lambda c, f, text, *more: seen.append(text) or real(c, f, text, *more)
    )
    return seen


def run(library: Path) -> int:
    return ctypes.CDLL(str(library)).add(20, 22)


# -- the cache's key


def test_second_build_compiles_nothing(compilations):
    first = cpu.build(ADD)
    assert cpu.build(ADD) == first
    assert run(first) == 42
    assert compilations == [ADD]


def test_moved_source_keeps_its_binary(compilations):
    first = cpu.build('#line 3 "a.py"\n' + ADD)
    assert cpu.build('  #  line 70 "b.py"\n' + ADD) == first
    assert len(compilations) == 1


@pytest.mark.parametrize(
    "text, defines", [(ADD.replace("+", "-"), ()), (ADD, ("X",)), (ADD, ("X=2",)), (ADD + "\n", ())]
)
def test_changed_text_or_define_is_built_again(text, defines):
    assert cpu.build(text, defines=defines) != cpu.build(ADD)


def test_changed_flags_compiler_and_processor_are_built_again(monkeypatch):
    paths = [cpu.build(ADD)]
    with monkeypatch.context() as m:
        m.setattr(cpu, "FLAGS", (*cpu.FLAGS, "-DOTHER"))
        paths.append(cpu.build(ADD))
    with monkeypatch.context() as m:
        m.setattr(cpu, "processor", lambda: "a later model")
        paths.append(cpu.build(ADD))
    used = cpu.compiler()
    with monkeypatch.context() as m:
        m.setattr(cpu, "compiler", lambda: cpu.replace(used, version="99"))
        paths.append(cpu.build(ADD))
    assert len(set(paths)) == 4
    assert len(cache.entries()) == 4


def test_parts_of_a_key_do_not_run_together():
    assert cache.key("a", "bc") != cache.key("ab", "c") != cache.key("abc")


def test_defines_reach_the_compiler():
    text = 'extern "C" int add(int, int) { return VALUE; }'
    assert run(cpu.build(text, defines=("VALUE=7",))) == 7


# -- the cache's directory


def test_moves_with_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "elsewhere" / "deep"))
    assert cpu.build(ADD).parent == tmp_path / "elsewhere" / "deep" == cache.path()
    monkeypatch.delenv("MORPH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert cache.path() == tmp_path / "xdg" / "morph"


def test_unusable_directory_falls_back_with_one_warning(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="MORPH_CACHE") as seen:
        first = cpu.build(ADD)
        assert cpu.build(ADD) == first
    assert len(seen) == 1
    assert run(first) == 42


def test_read_only_directory_falls_back(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    real = os.access  # a mode would not do: the tests may run as root
    monkeypatch.setattr(os, "access", lambda f, mode: f != tmp_path / "cache" and real(f, mode))
    with pytest.warns(RuntimeWarning, match="not writable"):
        assert run(cpu.build(ADD)) == 42
    assert not list((tmp_path / "cache").iterdir())


def noexec(monkeypatch, *folders):
    """Have the system say that these are mounted ``noexec``."""
    flags = os.ST_NOEXEC if hasattr(os, "ST_NOEXEC") else pytest.skip("Linux only")
    real = os.statvfs

    def statvfs(folder):
        inside = any(Path(folder).is_relative_to(f) for f in folders)
        return SimpleNamespace(f_flag=flags) if inside else real(folder)

    monkeypatch.setattr(os, "statvfs", statvfs)


def test_a_directory_that_forbids_execution_falls_back(directory, tmp_path, monkeypatch):
    noexec(monkeypatch, directory)
    with pytest.warns(RuntimeWarning, match="mounted noexec"):
        built = cpu.build(ADD)
    assert run(built) == 42 and built.parent != directory and cpu.build(ADD) == built
    assert cache.path("cubin") == directory  # a GPU loads files from anywhere
    noexec(monkeypatch, tmp_path, tempfile.gettempdir())
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "another"))
    with pytest.raises(CacheUnusable, match="noexec.*set MORPH_CACHE to a directory that is not"):
        cpu.build(ADD + "// another")


def test_a_user_without_a_home(tmp_path, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    for name in ("MORPH_CACHE", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pytest.importorskip("pwd"), "getpwuid", unknown)
    with pytest.warns(RuntimeWarning, match=r"\(no home directory\); set MORPH_CACHE"):
        assert run(cpu.build(ADD)) == 42


def test_no_directory_at_all(tmp_path, monkeypatch):
    def none(prefix):
        raise FileNotFoundError(2, "No usable temporary directory found")

    (tmp_path / "file").touch()
    monkeypatch.setenv("MORPH_CACHE", str(tmp_path / "file" / "y"))
    monkeypatch.setattr(tempfile, "mkdtemp", none)
    done = CliRunner().invoke(main, ["cache"])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("morph: compiled kernels cannot be stored: ")
    assert done.stderr.endswith("set MORPH_CACHE to a directory that can be written\n")


def test_fallback_is_removed_at_exit(tmp_path):
    (tmp_path / "file").touch()
    code = f"from morph.runtime.toolchain import cpu; print(cpu.build({ADD!r}))"
    env = os.environ | {"MORPH_CACHE": str(tmp_path / "file" / "x"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).parent.exists()


def test_survives_the_directory_being_removed(directory):
    cpu.build(ADD)
    shutil.rmtree(directory)
    assert run(cpu.build(ADD)) == 42


# -- what an entry is


def test_entries_are_described():
    before = time.time()
    built = cpu.build(ADD, name="add")
    (entry,) = cache.entries()
    assert (entry.name, entry.target, entry.suffix) == ("add", "cpu", "so")
    assert entry.binary == built
    assert entry.size == built.stat().st_size
    assert entry.source.read_text() == ADD
    assert entry.compiler == cpu.compiler().name
    assert before - 1 <= entry.created <= time.time() + 1
    assert cache.size() >= entry.size + len(ADD)


def test_clear_removes_what_is_ours_only(directory):
    cpu.build(ADD)
    with pytest.raises(CompileError):
        cpu.build("nonsense")
    busy = cache.temporary("so")  # perhaps another process is writing it
    old = cache.temporary("so")
    os.utime(old, (0, 0))
    (directory / "mine.txt").touch()
    assert cache.clear() == 1
    assert {f.name for f in directory.iterdir()} == {"mine.txt", busy.name}
    assert cache.entries() == []


def test_nothing_temporary_is_left(directory):
    cpu.build(ADD)
    with pytest.raises(CompileError):
        cpu.build("nonsense")
    assert not [f.name for f in directory.iterdir() if f.name.startswith("tmp-")]


# -- damage


@pytest.mark.parametrize("damage", ["empty", "short", "garbage", "missing", "record", "version"])
def test_damaged_entry_is_built_again(damage, compilations):
    built = cpu.build(ADD)
    whole = built.read_bytes()
    record = built.with_suffix(".json")
    replacement = built.with_suffix(".new")  # a mapped file is never overwritten in place
    match damage:
        case "empty":
            replacement.write_bytes(b"")
            replacement.replace(built)
        case "short":
            replacement.write_bytes(whole[: len(whole) // 2])
            replacement.replace(built)
        case "garbage":
            replacement.write_bytes(bytes(len(whole)))
            replacement.replace(built)
        case "missing":
            built.unlink()
        case "record":
            record.write_text(record.read_text()[:40])
        case "version":
            record.write_text(json.dumps({"key": built.stem, "of": "another time"}))
    assert run(cpu.build(ADD)) == 42
    assert len(compilations) == 2
    assert len(cache.entries()) == 1


def test_complete_but_unloadable_entry_is_built_again(directory, compilations):
    """As when the directory is shared by machines with different system libraries."""
    built = cpu.build(ADD)
    fake = cache.temporary("so")
    fake.write_bytes(b"not a library")
    cache.store(built.stem, "so", fake, ADD, name="", target="cpu", compiler="")
    assert run(cpu.build(ADD)) == 42
    assert len(compilations) == 2


def test_damaged_compiler_record_is_asked_for_again(directory, monkeypatch):
    cpu.build(ADD)
    (record,) = directory.glob("compiler-*.json")
    for text in ("", "[]", "{}"):
        record.write_text(text)
        monkeypatch.setattr(cpu, "_known", {})
        assert run(cpu.build(ADD)) == 42


# -- many processes


def _build_many(seed: int) -> list[int]:
    texts = [ADD.replace("a + b", f"a + b + {(seed + i) % 4}") for i in range(4)]
    return sorted(run(cpu.build(text)) for text in texts)


def test_many_processes_at_once(directory, tmp_path, monkeypatch):
    """Each text is compiled by one of them, for which the others wait."""
    log, wrapper = tmp_path / "compilations", tmp_path / "cxx"
    count = f'case "$*" in *"-x c++"*) echo >> {log};; esac'
    wrapper.write_text(f'#!/bin/sh\n{count}\nexec {REAL} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("MORPH_CXX", str(wrapper))
    context = multiprocessing.get_context("spawn")
    with context.Pool(6) as pool:
        results = pool.map(_build_many, range(12), chunksize=1)
    assert results == [[42, 43, 44, 45]] * 12
    assert len(cache.entries()) == len(log.read_text()) == 4
    assert not list(directory.glob("tmp-*"))


@pytest.mark.parametrize("build", [cpu.build, pytest.param(cuda.build, marks=pytest.mark.nvrtc)])
def test_a_deadline_passes_while_another_process_compiles(build, monkeypatch):
    text = ADD if build is cpu.build else SCALE
    held, real = [], cache.building
    monkeypatch.setattr(cache, "building", lambda key, name: held.append(key) or real(key, name))
    build(text)
    cache.clear()
    with real(held[0], ""), deadline(time.monotonic() + 0.05):
        with pytest.raises(OutOfTime, match="no time is left to compile sum"):
            build(text, name="sum")
    build(text)


# -- compile errors


def test_error_names_the_users_line(tmp_path):
    user = tmp_path / "user.py"
    user.write_text("@kernel\ndef f(p):\n    p.dist = nowhere\n")
    text = f'#line 3 "{user}"\nextern "C" int f() {{ return nowhere; }}\n'
    with pytest.raises(CompileError) as caught:
        cpu.build(text, name="f")
    error = caught.value
    assert (error.file, error.line, error.target) == (str(user), 3, "cpu")
    assert "f does not compile for cpu" in str(error)
    assert "p.dist = nowhere" in str(error)
    assert "nowhere" in error.log
    assert error.source.read_text() == text
    assert str(error.source) in str(error)
    assert cache.entries() == []


def test_error_outside_the_users_code_names_the_kept_text():
    with pytest.raises(CompileError) as caught:
        cpu.build("\nint f() { return nowhere; }")
    assert (caught.value.file, caught.value.line) == (str(caught.value.source), 2)


def test_undefined_symbol_is_a_compile_error():
    with pytest.raises(CompileError, match="nowhere"):
        cpu.build('extern "C" int nowhere(); extern "C" int f() { return nowhere(); }')


# -- which compiler


def script(path: Path, body: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_version_is_asked_once_per_compiler(tmp_path, monkeypatch):
    log = tmp_path / "log"
    wrapper = script(tmp_path / "cxx", f'echo "$@" >> {log}; exec {REAL} "$@"')
    monkeypatch.setenv("MORPH_CXX", wrapper)
    for _ in range(3):
        cpu.build(ADD)
        monkeypatch.setattr(cpu, "_known", {})  # as in a new process
    assert log.read_text().count("--version") == 1
    script(tmp_path / "cxx", f'echo changed "$@" >> {log}; exec {REAL} "$@"')
    monkeypatch.setattr(cpu, "_known", {})
    cpu.build(ADD)
    assert log.read_text().count("--version") == 2


def test_order_of_search(tmp_path, monkeypatch):
    wrapper = {n: script(tmp_path / n, f'exec {REAL} "$@"') for n in ("one", "two", "g++")}
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("MORPH_CXX", raising=False)
    assert cpu.compiler().command == ("g++",)
    monkeypatch.setenv("CXX", wrapper["two"])
    assert cpu.compiler().command == (wrapper["two"],)
    monkeypatch.setenv("MORPH_CXX", f"{wrapper['one']} -DWITH_OPTION")
    assert cpu.compiler().command == (wrapper["one"], "-DWITH_OPTION")
    text = ADD + "\n#ifndef WITH_OPTION\n#error missing\n#endif\n"
    assert run(cpu.build(text)) == 42


def test_unusable_cxx_is_passed_over(monkeypatch):
    monkeypatch.delenv("MORPH_CXX", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    usual = cpu.compiler().command
    monkeypatch.setenv("CXX", "/no/such/compiler")
    assert cpu.compiler().command == usual


@pytest.mark.parametrize("broken", ["/no/such/compiler", "no-such-compiler", "broken"])
def test_unusable_morph_cxx_is_an_error(broken, tmp_path, monkeypatch):
    if broken == "broken":
        broken = script(tmp_path / "broken", "echo licence expired >&2; exit 3")
    monkeypatch.setenv("MORPH_CXX", broken)
    with pytest.raises(CompilerNotFound, match="MORPH_CXX is set to") as caught:
        cpu.build(ADD)
    assert broken in str(caught.value)


def test_no_compiler_says_what_was_looked_for_and_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MORPH_CXX", raising=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(cpu.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompilerNotFound) as caught:
        cpu.build(ADD)
    assert "(no CXX, g++, clang++, c++, ziglang)" in str(caught.value)
    assert len(str(caught.value)) <= 190 and "\n" not in str(caught.value)
    for way in (
        "apt install",
        "dnf install",
        "brew install",
        "xcode-select",
        "pip install ziglang",
    ):
        assert way in str(caught.value)


def test_the_only_compiler_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MORPH_CXX", raising=False)
    monkeypatch.setenv("CXX", script(tmp_path / "broken", "echo licence expired >&2; exit 3"))
    monkeypatch.setattr(cpu.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompilerNotFound, match="CXX: --version failed: licence expired; install"):
        cpu.build(ADD)


@pytest.mark.skipif(not cpu.importlib.util.find_spec("ziglang"), reason="ziglang is not installed")
def test_zig_is_taken_when_nothing_else_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("MORPH_CXX", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    assert run(cpu.build(ADD)) == 42
    assert "ziglang" in cpu.compiler().command


# -- flags that a machine may lack


def refusing(path: Path, flag: str) -> str:
    """A compiler that does not know one flag."""
    return script(
        path,
        f'for a in "$@"; do case "$a" in {flag}) echo "error: {flag}?" >&2; exit 1;; esac; done\n'
        f'exec {REAL} "$@"',
    )


def test_without_march_native(tmp_path, monkeypatch):
    monkeypatch.setenv("MORPH_CXX", refusing(tmp_path / "cxx", "-m*=native"))
    assert run(cpu.build(ADD)) == 42
    assert cpu.compiler().flags == ()


def test_other_processors_than_x86():
    assert cpu._native_flags("x86_64")[0] == ("-march=native",)
    assert cpu._native_flags("AMD64")[0] == ("-march=native",)
    for machine in ("aarch64", "arm64", "ppc64le", "riscv64"):
        assert cpu._native_flags(machine) == (("-mcpu=native",), ("-march=native",), ())


def test_only_gcc_on_x86_is_tuned(tmp_path, monkeypatch):
    """Integers of hot loops that g++ keeps in vector registers cost a tenth of a search."""
    seen = tmp_path / "flags"
    body = f'echo "$@" >> {seen}\nexec {REAL} "$@"'
    monkeypatch.setenv("MORPH_CXX", script(tmp_path / "cxx", body))
    assert run(cpu.build(ADD)) == 42
    tuned = cpu._tuning(cpu.compiler().version, platform.machine())
    assert all(flag in seen.read_text() for flag in tuned)
    assert cpu._tuning("g++ (Debian 12.2.0-14) 12.2.0", "x86_64") == ("-mtune=generic",)
    assert cpu._tuning("g++ 12.2.0", "x86_64", ("g++", "-mtune=native")) == ()
    assert cpu._tuning("Debian clang version 14.0.6", "x86_64") == ()
    assert cpu._tuning("g++ (Debian 12.2.0-14) 12.2.0", "aarch64") == ()


def test_without_libstdcxx(tmp_path, monkeypatch):
    """Kernels need no C++ library, which clang++ then leaves out."""
    body = f"""bare=; n=$#
    while [ $n -gt 0 ]; do
        a=$1; shift; n=$((n - 1))
        case "$a" in -nostdlib++|--version) bare=1;; esac
        [ "$a" = -nostdlib++ ] || set -- "$@" "$a"
    done
    [ "$bare" ] || {{ echo "ld: cannot find -lstdc++" >&2; exit 1; }}
    exec {REAL} "$@" """
    monkeypatch.setenv("MORPH_CXX", script(tmp_path / "cxx", body))
    assert run(cpu.build(ADD)) == 42
    assert cpu.compiler().flags[-1] == "-nostdlib++"


def test_a_compiler_that_builds_nothing(tmp_path, monkeypatch):
    body = f"""[ "$1" = --version ] && exec {REAL} "$@"
    case "$*" in *-nostdlib++*) echo "gcc: unrecognized option" >&2; exit 1;; esac
    echo "gcc: fatal error: cannot execute 'cc1plus'" >&2; exit 1"""
    monkeypatch.setenv("MORPH_CXX", script(tmp_path / "cxx", body))
    with pytest.raises(CompilerNotFound, match="cannot build a library: .*cc1plus.*install g"):
        cpu.build(ADD)


def test_zig_on_windows(tmp_path, monkeypatch):
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(cpu.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(cpu, "_EXE", ".exe")
    command = (sys.executable, "-m", "ziglang", "c++")
    assert isinstance(cpu._identify(command), str)
    script(tmp_path / "zig.exe", "")
    asked = subprocess.CompletedProcess([], 0, "clang version 19", "")
    monkeypatch.setattr(cpu.processes, "run", lambda command: asked)
    assert cpu._identify(command).name == "clang version 19"


def test_users_error_is_not_blamed_on_the_flags(compilations):
    for _ in range(2):
        with pytest.raises(CompileError, match="nowhere"):
            cpu.build("int f() { return nowhere; }")
    assert cpu.compiler().checked
    assert compilations.count(cpu._TRIAL) == 1


def test_arithmetic_is_what_the_gpu_does():
    """No contraction, and signed overflow that wraps."""
    text = """extern "C" double fma3(double a, double b, double c) { return a * b + c; }
              extern "C" int more(int a) { return a + 1 > a; }"""
    library = ctypes.CDLL(str(cpu.build(text)))
    library.fma3.restype = ctypes.c_double
    a, b = 1 + 2.0**-30, 1 - 2.0**-30
    library.fma3.argtypes = [ctypes.c_double] * 3
    assert library.fma3(a, b, -1.0) == a * b - 1.0
    assert library.more(2**31 - 1) == 0


# -- CUDA


@pytest.mark.nvrtc
def test_cubin_comes_from_the_cache_the_second_time(monkeypatch):
    cubin = cuda.build(SCALE, name="scale")
    assert cubin[:4] == b"\x7fELF"
    monkeypatch.setattr(cuda, "_compile", None)
    assert cuda.build(SCALE) == cubin
    assert cuda.build('#line 9 "moved.py"\n' + SCALE) == cubin
    (entry,) = cache.entries()
    assert (entry.name, entry.target, entry.suffix) == ("scale", "sm_90", "cubin")
    assert entry.source.read_text() == SCALE


@pytest.mark.nvrtc
def test_cubin_differs_by_architecture_and_define(monkeypatch):
    cuda.build(SCALE)
    cuda.build(SCALE, "sm_80")
    cuda.build(SCALE, defines=("X",))
    monkeypatch.setattr(cuda, "version", lambda: "another NVRTC")
    cuda.build(SCALE)
    assert len(cache.entries()) == 4


@pytest.mark.nvrtc
def test_damaged_cubin_is_built_again():
    cubin = cuda.build(SCALE)
    (entry,) = cache.entries()
    entry.binary.write_bytes(cubin[:100])
    assert cuda.build(SCALE) == cubin


@pytest.mark.nvrtc
def test_cuda_error_names_the_users_line(tmp_path):
    user = tmp_path / "user.py"
    user.write_text("a\nb = nowhere\n")
    text = f'#line 2 "{user}"\nint f() {{ return nowhere; }}\n'
    with pytest.raises(CompileError) as caught:
        cuda.build(text, name="f")
    assert (caught.value.file, caught.value.line, caught.value.target) == (str(user), 2, "sm_90")
    assert "b = nowhere" in str(caught.value)
    assert caught.value.source.read_text() == text


@pytest.mark.nvrtc
def test_unknown_architecture_is_a_compile_error():
    with pytest.raises(CompileError, match="sm_1"):
        cuda.build(SCALE, "sm_1")


@pytest.mark.nvrtc
def test_plain_functions_are_device_functions_and_nothing_is_contracted():
    text = """double f(double a, double b, double c) { return a * b + c; }
              extern "C" __global__ void k(double *x) { x[0] = f(x[0], x[1], x[2]); }"""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, "k.cu", (), ())
    nvrtc.compileProgram(program, (*cuda.FLAGS, "--gpu-architecture=compute_90"))
    assert b"fma" not in nvrtc.getPTX(program)


def test_without_cupy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(CompilerNotFound, match=r"morph-engine\[gpu\]") as caught:
        cuda.build(SCALE, "sm_90")
    assert len(str(caught.value)) <= 193 and "\n" not in str(caught.value)


# -- the binaries of an installed wheel


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Make `ADD` as a wheel's build does; return the folder, in which it is then looked for."""
    if shipped.portable_flags(cpu.processor()) is None:
        pytest.skip("binaries are made for Linux on x86-64-v3 only")
    made, folder = tmp_path / "made", tmp_path / "compiled"
    made.mkdir()
    monkeypatch.setenv(shipped.COLLECT, str(made))
    cpu.build(ADD)
    monkeypatch.delenv(shipped.COLLECT)
    monkeypatch.setattr(shipped, "FOLDER", made.rename(folder))
    return folder


def test_an_installed_wheel_needs_no_compiler(wheel, monkeypatch, directory):
    monkeypatch.setenv("MORPH_CXX", "/missing")
    found = cpu.build(ADD)
    assert found.parent == wheel and run(found) == 42
    with pytest.raises(CompilerNotFound):
        cpu.build(ADD + "// another")


def test_a_library_of_a_wheel_that_does_not_load_is_compiled(wheel, compilations):
    for file in wheel.glob("*.so"):
        file.unlink()  # it is mapped: never overwritten in place
        file.write_bytes(b"of another system")
    found = cpu.build(ADD)
    assert found.parent != wheel and run(found) == 42 and len(compilations) == 1


def test_older_processors_compile(wheel, monkeypatch):
    monkeypatch.setattr(cpu, "processor", lambda: "flags : sse2 avx")
    assert cpu.build(ADD).parent != wheel


@pytest.mark.nvrtc
def test_a_cubin_of_a_wheel(tmp_path, monkeypatch):
    (made,) = cuda.ship(SCALE, ("sm_80",), tmp_path)
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr(cuda, "_compile", lambda *args: (b"compiled", ""))
    cubin = lzma.decompress(made.read_bytes())
    assert cubin[:4] == b"\x7fELF" and cuda.build(SCALE, "sm_80") == cubin
    assert cuda.build(SCALE, "sm_89") == cubin  # of the same generation
    for others in ("sm_75", "sm_90", "sm_90a"):
        assert cuda.build(SCALE, others) == b"compiled"
    # a driver that is too old for the wheel's cubins
    assert cuda.build(SCALE, "sm_80", use_installed=False) == b"compiled"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "lzma", None)  # a Python without it
        assert cuda.build(SCALE, "sm_80") == b"compiled"
    assert [f for f in tmp_path.iterdir() if f.is_file()] == [made]
    made.write_bytes(b"damaged")
    assert cuda.installed(SCALE, "sm_89") is None


ASSEMBLER = """#!/bin/sh
case $1 in *sm_100) exit 1 ;; esac  # its version is too old
{ echo $1; grep -m 1 target; } <$2 >$4
"""


def test_generations_share_the_ptx_of_a_wheel(tmp_path, monkeypatch):
    """What ptxas does not assemble is compiled as without it; what is there, not again."""
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(ASSEMBLER)
    ptxas.chmod(0o755)
    monkeypatch.setattr(cuda, "_assembler", lambda: str(ptxas))
    asked = []

    def nvrtc(text, flags, name):
        asked.append(flags[-1].partition("=")[2])
        return b".target sm_80\n\0" if "compute" in asked[-1] else asked[-1].encode(), ""

    monkeypatch.setattr(cuda, "_compile", nvrtc)
    groups = cuda.shared_ptx((*shipped.ARCHITECTURES, "sm_90a"))
    assert groups == [("sm_80", "sm_90", "sm_100", "sm_120"), ("sm_75",), ("sm_90a",)]
    made = [file for group in groups for file in cuda.ship(SCALE, group, tmp_path)]
    assembled = [f"-arch={a}\n.target sm_80\n".encode() for a in ("sm_80", "sm_90", "sm_120")]
    expected = [*assembled[:2], b"sm_100", assembled[2], b"sm_75", b"sm_90a"]
    assert [lzma.decompress(file.read_bytes()) for file in made] == expected
    assert asked == ["compute_80", "sm_100", "sm_75", "sm_90a"]
    made[1].unlink()
    cuda.ship(SCALE, groups[0], tmp_path)
    cuda.ship(SCALE, groups[1], tmp_path)
    assert asked[4:] == ["compute_80"] and all(file.is_file() for file in made)
    monkeypatch.setattr(cuda, "_assembler", lambda: None)
    assert cuda.shared_ptx(("sm_80", "sm_90")) == [("sm_80",), ("sm_90",)]


@pytest.mark.nvrtc
@pytest.mark.parametrize("alone", [False, True])
def test_nvrtc_makes_ptx(monkeypatch, alone):
    if alone:  # CuPy's NVRTC, in this process
        monkeypatch.setattr(cuda, "_library", lambda: None)
    ptx, _ = cuda._compile(SCALE, (*cuda.FLAGS, "--gpu-architecture=compute_80"), "k.cpp")
    assert b".target sm_80" in ptx


@pytest.mark.parametrize(
    ("capability", "installed"),
    [
        ("75", "sm_75"), ("80", "sm_80"), ("86", "sm_80"), ("89", "sm_80"), ("90", "sm_90"),
        ("100", "sm_100"), ("103", "sm_100"), ("120", "sm_120"), ("121", "sm_120"),
        ("110", None), ("130", None),
    ],
)  # fmt: skip
def test_each_generation_loads_its_cubins_of_a_wheel(tmp_path, monkeypatch, capability, installed):
    """Of GPUs of all generations, which are imitated; later ones compile."""
    key = cache.key("text", "cuda", *cuda.FLAGS)
    for arch in shipped.ARCHITECTURES:
        (tmp_path / f"{key}.{arch}.xz").write_bytes(lzma.compress(arch.encode()))
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    tried = []
    gpu = SimpleNamespace(
        Device=lambda index: SimpleNamespace(compute_capability=capability),
        function=SimpleNamespace(Module=lambda: SimpleNamespace(load=tried.append)),
        driver=SimpleNamespace(CUDADriverError=Refused),
    )
    monkeypatch.setattr(modules, "import_cupy", lambda: SimpleNamespace(cuda=gpu))
    monkeypatch.setattr(cuda, "_unit", lambda text, name, arch, flags: arch)
    monkeypatch.setattr(cuda, "_stored", lambda arch, since: f"compiled {arch}".encode())
    modules.loaded("text", 0, "name")
    assert tried == [(installed or f"compiled sm_{capability}").encode()]


class Refused(Exception):
    """`cupy.cuda.driver.CUDADriverError`."""

    def __init__(self, status):
        super().__init__(f"CUDA_ERROR: {status}")
        self.status = status


@pytest.fixture
def driver(monkeypatch):
    """Imitate a driver; return the refused cubins, by their status, and those that it was given."""
    refused, tried = {}, []

    def load(cubin):
        tried.append(cubin)
        if cubin in refused:
            raise Refused(refused[cubin])

    gpu = SimpleNamespace(
        Device=lambda index: SimpleNamespace(compute_capability="90"),
        function=SimpleNamespace(Module=lambda: SimpleNamespace(load=load)),
        driver=SimpleNamespace(CUDADriverError=Refused),
    )
    monkeypatch.setattr(modules, "import_cupy", lambda: SimpleNamespace(cuda=gpu))
    monkeypatch.setattr(modules, "_refusing", set())
    monkeypatch.setattr(cuda, "_shipped", lambda *a: (Path("installed"), b"installed"))
    monkeypatch.setattr(cuda, "_unit", lambda *a: None)
    monkeypatch.setattr(cuda, "_stored", lambda *a: b"compiled")
    return refused, tried


def test_a_driver_may_refuse_a_cubin_of_a_wheel(driver, caplog):
    """Then NVRTC compiles this text and later ones; other GPUs are not concerned."""
    refused, tried = driver
    modules.loaded("text", 0, "name")
    refused[b"installed"] = 209
    modules.loaded("text", 0, "name"), modules.loaded("another", 0, "name")
    assert tried == [b"installed", b"installed", b"compiled", b"compiled"]
    assert modules.build("text", 0, "name") == b"compiled"
    assert modules.build("text", 1, "name") == b"installed"
    assert [r.levelname for r in caplog.records if "refuses" in r.message] == ["WARNING"]


def test_a_driver_that_is_older_than_nvrtc(driver, monkeypatch):
    refused, tried = driver
    refused |= {b"installed": 222, b"compiled": 200}
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"cuda:0: .*older than NVRTC; update it") as caught:
            modules.loaded("text", 0, "name")
        assert len(str(caught.value)) <= 200
    assert tried == [b"installed", b"compiled", b"compiled"]  # nothing twice

    def missing(*args):
        raise CompilerNotFound("no NVRTC")

    monkeypatch.setattr(cuda, "_stored", missing)
    with pytest.raises(DeviceError, match=r"cuda:0: the driver is too old") as caught:
        modules.loaded("text", 0, "name")
    assert len(str(caught.value)) <= 200
    with pytest.raises(CompilerNotFound):
        modules.loaded("text", 1, "name", ("MORPH_FAULTS",))


def test_other_errors_of_a_driver_are_raised(driver):
    refused, tried = driver
    refused[b"installed"] = refused[b"compiled"] = 2
    for defines in ((), ("MORPH_FAULTS",)):
        with pytest.raises(Refused):
            modules.loaded("text", 0, "name", defines)
    assert tried == [b"installed", b"compiled"]


def test_threads_of_several_gpus_compile_a_kernel_of_cupys_once():
    cached, runs = set(), []

    def compile_or_load(source, options, *, arch=None):
        if (source, options) not in cached:
            if source == "broken":
                raise CompileError("", "sm_90", Path())
            runs.append(source)
            time.sleep(0.05)
            cached.add((source, options))
        return source, options, arch

    compiler = SimpleNamespace(_compile_module_with_cache=compile_or_load)
    for _ in range(2):  # of the second and of the third GPU
        modules.compile_once(compiler)
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(compiler._compile_module_with_cache, s, ("-x",), arch=s)
                for s in "abab"]  # fmt: skip
    assert [w.result() for w in work] == [(s, ("-x",), s) for s in "abab"]
    assert sorted(runs) == ["a", "b"]
    for _ in range(2):  # an error leaves no lock
        with pytest.raises(CompileError):
            compiler._compile_module_with_cache("broken", ())
    modules.compile_once(SimpleNamespace())  # of another CuPy


def test_headers_of_cupy_are_precompiled_unless_the_user_decides(monkeypatch):
    monkeypatch.delenv("CUPY_NVRTC_USE_PCH", raising=False)
    new, old = SimpleNamespace(_use_pch=False), SimpleNamespace()
    modules.precompile_headers(new), modules.precompile_headers(old)
    assert vars(new) == {"_use_pch": True} and not vars(old)
    monkeypatch.setenv("CUPY_NVRTC_USE_PCH", "0")
    new._use_pch = False
    modules.precompile_headers(new)
    assert not new._use_pch


def test_the_prelude_of_tests_is_precompiled(tmp_path, monkeypatch):
    """Else each unit of a test is compiled with it, in several times the time."""
    monkeypatch.setenv(precompiled.FOLDER, str(tmp_path))
    command, _ = precompiled.clang() or (["g++"], "")
    options = "-std=c++17", "-fPIC", "-w", "-march=x86-64-v3", "-O0"
    header, linked = precompiled._files((*command, *options), prelude(), True)
    assert header.with_suffix(".h.gch").exists() and Path(linked[-1]).exists()


@pytest.mark.parametrize("mode", ["quick", "full"])
def test_libraries_of_the_host_load(mode, monkeypatch):
    """Those of units are linked without libraries, but these use the one of C++."""
    monkeypatch.setenv(tiers.VARIABLE, mode)
    for made in (mesh.LIBRARY, reverses.LIBRARY, sorting.LIBRARY, clauses.LIBRARY, numbers.LIBRARY):
        assert HostLibrary(made.path, made.functions).load() is not None


def test_a_library_that_does_not_compile_is_reported(tmp_path, caplog):
    """NumPy does its work, and more slowly."""
    source = tmp_path / "slow.cpp"
    source.write_text('extern "C" void missing();\nextern "C" void work() { missing(); }\n')
    assert HostLibrary(source, {"work": ""}).load() is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("slow.cpp is not used, which is slower: slow does not")
