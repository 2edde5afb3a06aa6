"""Ctrl-C in callbacks of weak references, whose exceptions CPython drops."""

from __future__ import annotations

import ast
import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import morph
from morph.cli.interrupts import repeated_if_dropped
from morph.language.weak import WeakMap, WeakObjects

FILES = sorted(Path(morph.__file__).parent.rglob("*.py"))
CALLBACKS = {"WeakSet", "WeakKeyDictionary", "WeakValueDictionary", "WeakMethod", "finalize"}


class Thing:
    pass


def test_objects_are_not_kept_alive():
    things = [Thing() for _ in range(100)]
    found = WeakObjects[Thing]()
    for x in things * 2:
        found.add(x)
    assert len(found) == 100 and set(found) == set(things)
    del things[1:], x
    assert list(found) == things and things[0] in found and Thing() not in found
    for _ in range(100):
        found.add(Thing())
    assert len(found._refs) <= 33  # references to objects that are gone do not accumulate


def test_values_live_as_long_as_their_keys():
    found, keys, value = WeakMap[Thing, Thing](), [Thing(), Thing()], Thing()
    for x in keys:
        assert found.get(x) is None and found.setdefault(x, value) is value
    assert found.setdefault(keys[0], Thing()) is value and found.get(keys[1]) is value
    assert found.items() == [(keys[0], value), (keys[1], value)]
    before = sys.getrefcount(value)
    del x, keys[0]
    assert sys.getrefcount(value) == before - 1 and [v for _, v in found.items()] == [value]


def test_no_python_code_runs_when_objects_die():
    """So no signal handler runs where its exception would be dropped."""
    table = morph.Table("t", "cpu", x="i4")
    objects = [morph.Collection(table), morph.Set(table), morph.Table("u", "cpu")]
    known = WeakMap[object, int]()
    for x in objects:
        known.setdefault(x, 1)
    assert len(table.dependents) == 2
    del x
    gc.collect()
    called = []

    def trace(frame, event, arg):
        called.append(frame.f_code.co_qualname)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        objects.clear()
        del table
    finally:
        sys.settrace(before)
    assert not called and not known.items()


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_package_has_no_callbacks_in_python(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.name != "__del__", f"line {node.lineno}: {__doc__}"
        elif isinstance(node, ast.Name | ast.Attribute | ast.alias):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or node.name
            assert name not in CALLBACKS, f"line {node.lineno}: take morph.language.weak"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("ref", "weakref.ref"):
            callback = ast.unparse(node.args[1]) if len(node.args) > 1 else "partial"
            built_in = callback.startswith("partial") or callback.endswith(".pop")
            assert built_in, f"line {node.lineno}: {callback} is no function in C"


def drop_an_interrupt() -> None:
    """Receive SIGINT in the callback of a weak reference."""
    thing = Thing()
    _ = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing


@pytest.fixture
def interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("seconds", [0, 10])
def test_a_dropped_interrupt_comes_again(seconds):
    hook = sys.unraisablehook
    for _ in range(30):  # the signal must not fall into the hook, which drops exceptions, too
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt), repeated_if_dropped():
            drop_an_interrupt()
            time.sleep(seconds)
        assert time.monotonic() - start < 5 and sys.unraisablehook is hook


@pytest.mark.usefixtures("interruptible")
def test_other_dropped_exceptions_are_reported(monkeypatch):
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: found.append(dropped.exc_type))
    with repeated_if_dropped():
        thing, other = Thing(), Thing()
        refs = weakref.ref(thing, lambda _: 1 / 0), weakref.ref(other, lambda _: 1 / 0)
        del thing
        thread = threading.Thread(target=drop_an_interrupt)  # its handler runs in this one
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            thread.join()
            time.sleep(10)
    assert found == [ZeroDivisionError] and all(refs)


def test_a_command_ends():
    code = """
import signal, sys, time
sys.path.insert(0, sys.argv.pop(1))
from test_weak_references import drop_an_interrupt
from morph import cli
signal.signal(signal.SIGINT, signal.default_int_handler)

@cli.main.command()
def wait():
    drop_an_interrupt()
    time.sleep(60)

cli.main(["wait"])
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr.strip()) == (130, "morph: interrupted")
