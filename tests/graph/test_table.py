"""Tables: columns, layouts, values of rows."""

import importlib
import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import contents, snapshot
from targets import host

from morph.compiler.ir import abi
from morph.data.collection import Collection
from morph.data.store import Word
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import NAMES, Ref, Vec, f32, f64, i8, i16, i32, u8, u64, vec
from morph.runtime.backend import BACKENDS, Backend
from morph.runtime.device import Device, DeviceError, device

DTYPES = list(NAMES)


def test_meta_words_are_those_of_generated_code():
    assert {w.name: w.value for w in Word} == {w.name: w.value for w in abi.Meta}


# --- devices -------------------------------------------------------------------------------------


def test_devices():
    assert device("cpu") is device("cpu") == device(device("cpu"))
    assert device("cpu") != device("python")
    assert device("auto").kind in ("cpu", "cuda")
    for bad in ("gpu", "cuda:x", "cpu:0", "cuda:"):
        with pytest.raises(ValueError, match="no device"):
            device(bad)
    with pytest.raises(TypeError):
        device(0)
    with pytest.raises(DeviceError, match="cuda:99"):
        device("cuda:99")


@pytest.mark.parametrize("kind", BACKENDS)
def test_every_backend_implements_the_protocol(kind):
    package = {"python": "interpreter"}.get(kind, kind)
    module = importlib.import_module(f"morph.runtime.{package}.device")
    (made,) = {c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Device)
               and c.__module__ == module.__name__}  # fmt: skip
    methods = [n for n, x in vars(Backend).items() if inspect.isfunction(x) and n[0] != "_"]
    assert len(methods) > 15
    for name in methods:
        assert getattr(made, name) is not vars(Backend)[name], name
        here, there = (inspect.signature(getattr(c, name)) for c in (made, Backend))
        assert [*here.parameters.values()] == [*there.parameters.values()], name
    for name in Backend.__annotations__.keys() - {"kind", "name", "index", "xp"}:
        assert type(getattr(made, name)) in (bool, int), name


def test_host_arrays_start_on_a_cache_line():
    d = device("cpu")
    assert all(d.pointer(d.buffer(n)) % 64 == 0 for n in (1, 63, 1000))


# --- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_every_dtype(dtype, packed):
    big = (
        1
        if dtype.kind == "b"
        else np.iinfo(dtype).max
        if dtype.kind in "iu"
        else np.finfo(dtype).max
    )
    t = Table("t", x=dtype, v=(dtype, 3), other=u8)
    if packed:
        t.pack("x", "v")
    t.add("filled", dtype, fill=1)
    t.new(big, [0, 1, big])
    t.extend(x=np.ones(40, dtype), v=np.ones((40, 3), dtype))
    assert t.x.dtype == t.v.dtype == dtype
    assert t[0].x == big and type(t[0].x) is dtype.type
    assert t[0].v.tolist() == [0, 1, dtype.type(big).item()]
    assert t.x[:].shape == (41,) and t.v[:].shape == t.v.shape == (41, 3)
    assert (t.x[1:] == 1).all() and (t.filled == 1).all()
    other = t.to("python")
    assert contents(other) == contents(t) and other.packs == t.packs
    assert other.device.name == "python"


def test_packed_from_the_start():
    points = Table("points", pack=("y", "z"), x=f64, y=f64, z=i32)
    items = Collection(points, pack=("item", "colour"), colour=u8, far=Ref(points))
    assert points.packs == (("y", "z"),) and items.packs == (("item", "colour"),)
    points.extend(3, x=1, y=2, z=[3, 4, 5])
    items.extend([2, 0], colour=[7, 8])
    assert points.y[:].tolist() == [2, 2, 2] and points.z[:].tolist() == [3, 4, 5]
    assert items.items.tolist() == [2, 0] and items.colour[:].tolist() == [7, 8]
    assert items.far[:].tolist() == [-1, -1]
    points.delete(0)
    points.compact()
    assert items.items.tolist() == [1]  # the item that was deleted is removed
    for pack in (("y", "no"), ("y", "y"), ("y", ("z",))):
        with pytest.raises(ValueError, match="column|pack"):
            Table("t", pack=pack, y=f64, z=i32)
    g = Graph()
    with pytest.raises(ValueError, match="no column 'b'; it has a"):
        g.add_table("t", pack=("a", "b"), a=f64)
    assert "t" not in g.tables


def test_several_columns_are_added_or_none():
    t = Table("t", x=f64)
    t.extend(2, x=1)
    version = t.version
    with pytest.raises(TypeError):
        t.add_columns({"y": (i32, 5), "z": (complex, None)})
    assert [*t.columns] == ["x"] and t.version == version
    t.add_columns({"y": (i32, 5), "z": (vec(f64, 2), [1, 2])}, [("y", "z")])
    assert t.y[:].tolist() == [5, 5] and t.z[:].tolist() == [[1, 2], [1, 2]]
    assert t.packs == (("z", "y"),)  # the widest column first


@pytest.mark.parametrize(
    "spec", [complex, object, np.longdouble, "U5", "M8[s]", None, Vec((f64, 2), 2), "nonsense"]
)
def test_types_that_are_no_columns(spec):
    if spec is np.longdouble and np.dtype(spec).itemsize == 8:
        pytest.skip("longdouble is double here")
    t = Table("t")
    with pytest.raises(TypeError):
        t.add("x", spec)
    assert not t.columns


def test_type_spellings():
    t = Table("t", a=int, b="f4", c=bool, d=np.dtype(">i4"), e=vec(f64, 2), f=np.dtype((f32, 3)))
    assert [c.dtype.name for c in t.columns.values()] == [
        "int64", "float32", "bool", "int32", "float64", "float32",
    ]  # fmt: skip
    assert [c.size for c in t.columns.values()] == [0, 0, 0, 0, 2, 3]
    assert repr(t.columns["e"]) == "e: f64[2]"
    for size in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            t.add("x", vec(f64, size))
    with pytest.raises(TypeError, match="length"):
        t.add("x", (f64, 2.0))


@pytest.mark.parametrize("name", ["id", "delete", "live", "2x", "class", "_x", "a b", "new", "x"])
def test_names_that_are_no_columns(name):
    t = Table("t", x=f64)
    with pytest.raises(ValueError, match="column"):
        t.add(name, f64)


@pytest.mark.parametrize("name", ["host_meta", "publish_counters", "record_position"])
def test_internal_names_are_free_for_columns(name):
    t = Table("t", **{name: i32})
    t.new(5)
    assert getattr(t, name)[:].tolist() == [5] and getattr(t[0], name) == 5


@pytest.mark.parametrize("target", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_values_of_a_wrong_shape_name_the_column(target):
    t = Table("t", target, x=i32, v=vec(f64, 3))
    t.extend(4)

    def refuses(message, write):
        with pytest.raises(ValueError, match=message):
            write()

    refuses(r"t\.v: shape \(2,\) does not fit \(3,\)", lambda: setattr(t[0], "v", [1, 2]))
    refuses(r"t\.v: shape \(2,\) does not fit \(4, 3\)", lambda: t.v.__setitem__(slice(4), [1, 2]))
    refuses(r"t\.x: shape \(2,\) does not fit one value", lambda: setattr(t[0], "x", [1, 2]))
    assert not host(t.x).any() and not host(t.v).any()


def test_fill():
    t = Table("t", x=f64)
    t.new(1.0)
    t.add("v", vec(i32, 2), fill=[3, 4])
    t.add("r", Ref("t"))
    t.new(2.0)
    assert t.v[:].tolist() == [[3, 4]] * 2
    assert t.r[:].tolist() == [-1, -1] and t[0].r is None
    with pytest.raises(TypeError):
        t.add("y", i32, fill=0.5)
    with pytest.raises(OverflowError):
        t.add("y", i8, fill=128)
    with pytest.raises(ValueError, match="shape"):
        t.add("y", vec(i32, 2), fill=[1, 2, 3])
    assert list(t.columns) == ["x", "v", "r"]


def test_fill_bytes_are_laid_out_as_kernels_read_them():
    t = Table("t", a=i8, v=(f32, 3), r=Ref("t"))
    t.add("w", f64, fill=2.5)
    blob = np.frombuffer(t._fill_bytes(), np.uint8)
    assert blob.size == 8 + 16 + 8 + 8
    assert blob[24:28].view(i32) == -1 and blob[32:].view(f64) == 2.5
    t.address("fill")


def test_rename():
    t = Table("t", pack=("a", "r"), a=i32, r=Ref("t"), b=f64)
    t.extend(2, a=[1, 2], b=[3, 4])
    view, version = t.a, t.version
    t.rename("a", "c")
    assert list(t.columns) == ["c", "r", "b"] and t.packs == (("c", "r"),)
    assert t.c[:].tolist() == view[:].tolist() == [1, 2] and t[1].c == 2 and t.version > version
    assert t.new(7, None, 8).c == 7
    t.grow()
    t.drop("c")
    assert t.b[:].tolist() == [3, 4, 8]
    with pytest.raises(KeyError, match="no column 'a'"):
        t.rename("a", "d")
    for name in ("b", "id", "2x", "_y"):
        with pytest.raises(ValueError):
            t.rename("r", name)


def test_drop():
    t = Table("t", pack=("a", "b", "c"), a=i8, b=f64, c=i16)
    t.extend(a=[1, 2], b=[3, 4], c=[5, 6])
    version = t.version
    t.drop("b")
    assert t.version > version and sorted(t.packs[0]) == ["a", "c"]
    assert t.a[:].tolist() == [1, 2] and t.c[:].tolist() == [5, 6]
    with pytest.raises(KeyError):
        t.drop("b")


# --- layout --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "stride"),
    [
        ({"a": i8}, 1), ({"a": (i32, 3)}, 16), ({"a": i8, "b": i32}, 8), ({"a": f64, "b": i8}, 16),
        ({"a": (i32, 3), "b": (i32, 3), "c": u64}, 32), ({"a": (f64, 4), "b": i8}, 64),
        ({"a": (f64, 9)}, 96),
    ],
)  # fmt: skip
def test_record_size(columns, stride):
    t = Table("t", pack=tuple(columns), **columns)
    t.extend(3)
    assert {c.stride for c in t.columns.values()} == {stride}
    starts = [t.address("column", n) for n in columns]
    assert min(starts) % 32 == 0 and max(starts) - min(starts) < stride
    for n, start in zip(columns, starts, strict=True):
        assert start % t.columns[n].dtype.itemsize == 0
    t.pack()
    assert [c.stride for c in t.columns.values()] == [c.nbytes for c in t.columns.values()]


def test_several_records_and_bad_packs():
    t = Table("t", pack=[("a", "b"), ("c",)], a=i8, b=i8, c=vec(f32, 3), d=f64)
    assert [c.stride for c in t.columns.values()] == [2, 2, 16, 8]
    t.extend(a=[1, 2], d=[3, 4])
    before = snapshot(t)
    for bad in (("a", "a"), ("x",), ("a", ("b",))):
        with pytest.raises(ValueError):
            t.pack(*bad)
    assert snapshot(t) == before


@given(st.data())
def test_contents_do_not_depend_on_the_layout(data):
    names = list("abcd")
    specs = {"a": i8, "b": vec(f64, 2), "c": vec(i16, 3), "d": Ref("t")}
    n = data.draw(st.integers(0, 20))
    rng = np.random.default_rng(n)
    values = {
        "a": rng.integers(-9, 9, n), "b": rng.random((n, 2)), "c": rng.integers(-9, 9, (n, 3)),
        "d": rng.integers(-1, max(n, 1), n) if n else np.zeros(0, int),
    }  # fmt: skip
    plain = Table("t", **specs)
    plain.extend(**values)
    order = data.draw(st.permutations(names))
    cut = data.draw(st.integers(0, 4))
    packed = Table("t", pack=[order[:cut], order[cut:]], **specs)
    packed.extend(**values)
    dead = data.draw(st.sets(st.integers(0, n - 1))) if n else set()
    for t in (plain, packed):
        t.grow()
        t.delete(sorted(dead))
        t.compact()
    assert contents(plain) == contents(packed)
    packed.pack()
    assert contents(plain) == contents(packed)


# --- values --------------------------------------------------------------------------------------


def test_views_read_and_write_in_place():
    t = Table("t", x=f64, k=i32, on=np.bool_)
    t.extend(4, x=np.arange(4.0))
    assert np.shares_memory(t.x.array, t.columns["x"].array)
    assert np.shares_memory(np.asarray(t.x), t.x.array)
    t.x[1] = 9
    t.x[[0, 3]] = [5, 6]
    t.on[:] = t.x > 5
    t.k[t.on] = 7
    t.k += 1
    t.x = t.x * 2
    assert t.x[:].tolist() == [10, 18, 4, 12] and t.k[:].tolist() == [1, 8, 1, 8]
    assert t.x[-1] == 12 and (t.x @ t.x) == 584 and list(t.x) == [10, 18, 4, 12]
    assert np.from_dlpack(t.x).tolist() == [10, 18, 4, 12]
    assert t.x.ndim == 1 and t.x.size == len(t.x) == 4
    assert not hasattr(t.x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="no column 'y'; it has x, k, on"):
        _ = t.y
    with pytest.raises(AttributeError, match="no column 'y'"):
        t.y = 1
    assert "f64" in repr(t.x) and "4 rows" in repr(t)


@pytest.mark.parametrize(
    ("column", "value", "error"),
    [
        ("k", 0.5, TypeError), ("k", [1.0] * 3, TypeError), ("k", 128, OverflowError),
        ("k", np.array([0, 0, -129]), OverflowError), ("k", "x", TypeError),
        ("u", -1, OverflowError), ("on", 2, TypeError), ("on", [0.0] * 3, TypeError),
        ("x", 1j, TypeError), ("x", [1, 2], ValueError), ("r", 3, ValueError),
        ("r", -2, ValueError), ("r", [0, 1, 2**40], ValueError), ("r", True, TypeError),
        ("k", None, TypeError),
    ],
)  # fmt: skip
def test_values_that_do_not_suit(column, value, error):
    t = Table("t", k=i8, u=u8, on=np.bool_, x=f64, r=Ref("t"))
    t.extend(3)
    before = snapshot(t)
    with pytest.raises(error):
        getattr(t, column)[:] = value
    with pytest.raises(error):
        setattr(t[0], column, value)
    with pytest.raises(error):
        t.extend(3, **{column: value if column != "r" or value != 3 else 6})
    with pytest.raises((error, ValueError)):  # several values are too many, whatever they are
        t.new(**{column: value if column != "r" or value != 3 else 4})
    assert snapshot(t) == before


def test_an_error_names_position_and_value():
    t = Table("t", r=Ref("t"))
    t.extend(5)
    with pytest.raises(ValueError, match=r"t\.r\[3\] = 9 is not a row of t \(5 rows\)"):
        t.r[:] = [0, 1, 2, 9, -7]


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_negative_ids_of_any_type_are_refused(dtype):
    """-1 in eight bits is 255 as an unsigned integer, which may be a row."""
    t = Table("t", "cpu", r=Ref("t"))
    t.extend(300)
    with pytest.raises(ValueError, match=r"ids\[1\] = -1 is not a row of t"):
        t.delete(np.array([1, -1], dtype))
    with pytest.raises(ValueError, match=r"t.r\[0\] = -2 is not a row of t"):
        t.r[:2] = np.array([-2, -1], dtype)


def test_columns_copy_across_devices():
    a, b = Table("t", "cpu", x=f64), Table("t", "python", x=f32)
    a.extend(x=[1, 2, 3])
    b.extend(3)
    b.x[:] = a.x
    assert b.x[:].tolist() == [1, 2, 3]


def test_rows():
    g = Graph()
    nodes = Ref("points")
    t = g.add_table("cells", node=nodes[3], nbr=Ref("cells")[3], parent=Ref("cells"), w=f64)
    p, q, r = (g.points.new() for _ in range(3))
    c = t.new([p, q, r])
    d = t.new((p, r, None), nbr=[c, None, c], parent=c, w=2)
    assert c == 0 and d == 1 and int(d) == 1 and d != c and hash(d) == 1 and {d: 3}[1] == 3
    assert d.parent == c and c.parent is None and d.parent.w == 0
    assert list(d.node) == [p, r, None] and d.nbr[0] is not None and d.nbr[0].node[1] == q
    assert np.asarray(d.nbr).tolist() == [0, -1, 0] and len(d.nbr) == 3
    assert d.nbr == (c, None, c) and repr(d.node) == "(points[0], points[2], None)"
    d.nbr[1] = d
    d.w = 7
    assert d.nbr[1] == d and t.w[1] == 7 and repr(d) == "cells[1]"
    for bad in (c, 3, -2):  # a row of another table, and ids out of range
        with pytest.raises((TypeError, ValueError)):
            c.node = [p, q, bad]
    with pytest.raises(AttributeError, match="no column 'weight'"):
        _ = c.weight
    with pytest.raises(AttributeError, match="no column 'weight'"):
        c.weight = 1
    with pytest.raises(IndexError, match="no row 2"):
        t[2]
    with pytest.raises(IndexError):
        t[-1]
    with pytest.raises(TypeError, match="one row"):
        t[[0, 1]]
    d.delete()
    assert d.dead and not c.dead and [x.id for x in t] == [0]


def test_new_matches_values_with_columns():
    t = Table("t", x=f64, v=vec(i32, 2))
    assert t.new(1, [2, 3]) == 0 and t.new(v=(4, 5), x=6) == 1
    before = snapshot(t)
    for bad in [lambda: t.new(1, [2, 3], 4), lambda: t.new(1, x=2), lambda: t.new(y=2)]:
        with pytest.raises(TypeError):
            bad()
    for bad in [lambda: t.new([1, 2]), lambda: t.new(1, [1, 2, 3])]:
        with pytest.raises(ValueError):
            bad()
    assert snapshot(t) == before


def test_extend_checks_lengths():
    t = Table("t", x=f64, v=vec(i32, 2), r=Ref("t"))
    assert t.extend(x=[1, 2], v=[[1, 2], [3, 4]]) == 0
    assert t.extend(3, x=7.0, v=[8, 9], r=[2, 3, 4]) == 2  # one value for all; refs to new rows
    assert t.extend(x=[], v=[]) == 5 and t.extend(0) == 5
    assert t.x[:].tolist() == [1, 2, 7, 7, 7] and t.v[4].tolist() == [8, 9]
    before = snapshot(t)
    for kwargs in ({"x": [1, 2], "v": [[1, 2]]}, {"n": 3, "x": [1]}, {"v": [[1], [2]]}, {"n": -1}):
        with pytest.raises(ValueError):
            t.extend(**kwargs)
    for kwargs in ({}, {"x": 1.0}, {"y": [1]}):
        with pytest.raises(TypeError):
            t.extend(**kwargs)
    assert snapshot(t) == before


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_what_is_finite_stays_so(kind):
    t = Table("t", "cpu", x=kind)
    t.extend(2, x=[1, 2])
    for value in (1e300, [1.0, -1e300], 10**18 if kind == np.float16 else -1e39):
        with pytest.raises(OverflowError, match=r"t.x: -?1.*does not fit x: f"):
            t.x[:] = value
    with pytest.raises(OverflowError, match="fill of 'y': 1e.300 does not fit"):
        t.add("y", kind, fill=1e300)
    assert t.x[:].tolist() == [1, 2]
    t.x[:] = [np.inf, np.nan]
    assert t.x[0] == np.inf and t.x[1] != t.x[1]


def test_integers_beyond_all_types_are_named():
    t = Table("t", x=np.uint64, y=np.int8)
    for column in ("x", "y"):
        with pytest.raises(OverflowError, match=rf"t\.{column}: {2**64} does not fit {column}"):
            t.extend(1, **{column: [2**64]})
    t.extend(1)
    for value in (300, -129):
        with pytest.raises(OverflowError, match=f"t.y: {value} does not fit y: i8"):
            t.y[0] = value


def test_an_empty_list_is_an_index(target):
    t = Table("t", target, 4, x=i32)
    t.extend(3)
    t.x[:] = [1, 2, 3]
    t.x[[]] = 0
    t.x[[]] += 1
    assert len(t.x[[]]) == 0
    assert [int(x) for x in t.x] == [1, 2, 3]
