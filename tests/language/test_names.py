"""Names with a meaning in C++, in CUDA or in the generated text, in every role of a kernel."""

from __future__ import annotations

import builtins
import importlib.util
import itertools
import keyword
import re
import string
import unicodedata
from types import ModuleType

import numpy as np
import pytest
import sm90
from small import points, rows, values

import morph
from morph.compiler.codegen.names import MEMBERS, OWN, SUFFIXED, TEMPORARY
from morph.compiler.codegen.unit import entry, prelude
from morph.compiler.ir import spelling
from morph.launch.checked import is_checked
from morph.launch.foreach import Program
from morph.prelude import i32, i64
from morph.worklists import advance

PLAIN = """t0_ t0__ t0___ t1_ k1 k1_ k1__ k1_found k1_found_ r2_ s3 s3_ w1 w1_ x0 x1 x1_ v1 p1 b1
    c1 _ __ ___ _a __a _a_ a_ a__ A T I L O u ue9 ue9_ int_ int__ std_ std__ Tuple_i64_i64
    Step0_0 s0_0 end0_0
    alone0_0 live_in_ live_out_ row_ reductions_ live_in__ row__ morph_many many_item
    many_prologue many_body many_live_in many_reductions many_to_x g_points_reservation
    items_reservation items_flag t_edge_ t_edge n_given_
    x_arg_ x_of_kernel_ result_ result return_ é è ñ 变量 変数 éa eé u00e9
    utf8_ utf8___9ca utf8___9ca_     ﬁ µ Ω café café_""".split()
CUDA = """threadIdx blockIdx blockDim gridDim warpSize dim3 uint uint2 uint4 int2 float4 double2
    longlong4 make_int4 half __half half2 cudaStreamDefault cudaMalloc cudaError_t CUDART_VERSION
    CUDA_R_32F CUuuid NV_IF_TARGET NVCC __CUDACC__ __CUDA_ARCH__ __global__ __device__ __shared__
    __constant__ __host__ __forceinline__ __launch_bounds__ __syncthreads atomicAdd atomicCAS
    clock clock64 surf2Dread tex2D printf assert trap trunc __ldg __popc __int128
    __restrict__""".split()
LIBRARY = """std linux unix i386 NULL errno main malloc free memcpy abort exit abs pow sin cos log10
    size_t ptrdiff_t clock_t va_list wchar_t int8_t uint64_t FILE stdin stdout EOF INT_MAX NAN
    INFINITY signed unsigned typeof offsetof omp_get_thread_num omp_set_num_threads _OPENMP
    __FILE__ __LINE__ __func__ __builtin_popcount __attribute__ __asm__ __cplusplus __GNUC__
    __unix __linux __extension__ _Pragma _Complex _Bool _Float128 _GNU_SOURCE __thread""".split()


def batched(names: list[str], size: int) -> list[list[str]]:
    return [names[i : i + size] for i in range(0, len(names), size)]


def identifiers(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


@pytest.fixture(scope="module")
def hostile():
    """Everything that could clash, the identifiers of a generated text among them."""
    g = points("cpu", seen=i32)
    then = morph.Collection(g.points)
    morph.foreach(g.points, advance, visit, then, check=False)
    text = prelude() + next(iter(advance.launches.values())).compiled.text
    found = identifiers(text) | set(PLAIN + CUDA + LIBRARY) | {"MORPH_FN", *string.ascii_letters}
    found |= spelling.KEYWORDS | spelling.LIBRARY | OWN | MEMBERS
    return sorted(n for n in found if n.isidentifier() and not keyword.iskeyword(n))


@pytest.fixture(scope="module")
def worst(hostile):
    """Those of them that have clashed or are written into the text by the printer: fewer."""
    found = {*PLAIN, *CUDA, *LIBRARY, *OWN, *MEMBERS, *spelling.KEYWORDS, *hostile[::9]}
    return [n for n in hostile if n in found]


@morph.func
def visit(p, t):
    return morph.prelude.atomic_max(t.seen, 1) == 0


def module(tmp_path, text: str) -> ModuleType:
    """A module of some text, whose names it cannot clash with: it is given its own by number."""
    # a file of each text: bytecode of one of the same size and second would be taken for its own
    file = tmp_path / f"hostile_names_{len(list(tmp_path.iterdir()))}.py"
    file.write_text("import morph as morph_0\n" + text)
    spec = importlib.util.spec_from_file_location("hostile_names", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def compiles_for_cuda(what, named: bool = False) -> None:
    """The text of the latest launch is compiled by NVRTC, where there is one.

    Names of functions and parameters are in PTX: if ``named``, ptxas reads it.
    """
    if isinstance(what, Program) and is_checked():
        return  # it has no text
    if importlib.util.find_spec("cupy") is not None:
        compiled = list(what.launches.values())[-1].compiled
        if compiled.device.kind == "cpu":
            text = prelude(compiled.unit.checked) + compiled.text
            if named:
                sm90.compile_one(text, entry(compiled.unit), fast="min")
            else:
                assert sm90.Ptx.of(text, entry(compiled.unit), "min").has_entry


def test_spelled_names_differ(hostile):
    for spell in (spelling.spell, spelling.spell_global):
        spelled = [spell(n) for n in {*hostile, *(f"{n}_" for n in hostile)}]
        assert len(spelled) == len(set(spelled)) and all(s.isascii() for s in spelled)
    assert not [n for n in hostile if TEMPORARY.fullmatch(spelling.spell(n))]
    assert {f"{n}_" for n in SUFFIXED}.isdisjoint(map(spelling.spell, hostile))


@pytest.mark.unchecked  # a checked text of so many statements compiles for minutes
def test_locals_and_parameters(target, tmp_path, hostile):
    allowed = [n for n in hostile if not hasattr(builtins, n)]
    for names in batched(allowed, 300):
        params, locals_ = names[::4], [n for i, n in enumerate(names) if i % 4]
        lines = [f"    {n} = r_0.v + {i}" for i, n in enumerate(locals_)]
        lines += [f"    r_0.out += {n} * {i + 3}" for i, n in enumerate([*locals_, *params])]
        head = f"@morph_0.kernel\ndef many(r_0, {', '.join(params)}):\n"
        many = module(tmp_path, head + "\n".join(lines)).many
        t = rows(target, v=i64, out=i64)
        t.v[:] = 5
        given = [7 * i for i in range(len(params))]
        morph.foreach(t, many, *given)
        all_ = [*(5 + i for i in range(len(locals_))), *given]
        assert values(t, "out") == [sum((i + 3) * x for i, x in enumerate(all_))]
        compiles_for_cuda(many)


@pytest.mark.unchecked  # a checked text of so many statements compiles for minutes
def test_functions_and_structs(target, tmp_path, worst):
    functions = [
        f"@morph_0.func\ndef {name}(x_0):\n    return x_0 + {i}\nkept_0({name})\n"
        for i, name in enumerate(worst)
    ]
    structs = [f"@struct_0\nclass {name}:\n    v: int_0\nkept_0({name})\n" for name in worst]
    start = "int_0, all_0 = int, []\nkept_0, struct_0 = all_0.append, morph_0.prelude.struct\n"
    made = [module(tmp_path, start + "".join(texts)).all_0 for texts in (functions, structs)]
    for part in batched(range(len(worst)), 150):  # the time of NVRTC grows faster than their number
        lines = [f"    r_0.out += F_0.f{i}(r_0.v) * {i + 3}" for i in part]
        lines += [f"    r_0.sum += S_0.f{i}(r_0.v).v * {i}" for i in part]
        home = module(tmp_path, "@morph_0.kernel\ndef many(r_0):\n" + "\n".join(lines))
        home.F_0, home.S_0 = (
            type("Space", (), {f"f{i}": x for i, x in enumerate(xs)}) for xs in made
        )
        t = rows(target, v=i64, out=i64, sum=i64)
        t.v[:] = 5
        morph.foreach(t, home.many)
        assert values(t, "out") == [sum((i + 3) * (5 + i) for i in part)]
        assert values(t, "sum") == [sum(5 * i for i in part)]
        compiles_for_cuda(home.many, named=True)


@pytest.mark.unchecked  # a checked text of so many statements compiles for minutes
def test_fields_of_structs(target, tmp_path, worst):
    allowed = [n for n in worst if not n.startswith("__")]  # Python mangles these in a class
    for names in batched(allowed, 150):  # the time of NVRTC grows with the square of their number
        fields = "".join(f"    {n}: int_0\n" for n in names)
        given = ", ".join(f"r_0.v + {i}" for i in range(len(names)))
        lines = [f"    s_0.{n} += {i % 5}" for i, n in enumerate(names)]
        lines += [f"    r_0.out += s_0.{n} * {i % 7}" for i, n in enumerate(names)]
        text = f"int_0 = int\nstruct_0 = morph_0.prelude.struct\n@struct_0\nclass S_0:\n{fields}"
        text += f"@morph_0.kernel\ndef many(r_0):\n    s_0 = S_0({given})\n" + "\n".join(lines)
        t = rows(target, v=i64, out=i64)
        many = module(tmp_path, text).many
        morph.foreach(t, many)
        assert values(t, "out") == [sum((i + i % 5) * (i % 7) for i in range(len(names)))]
        compiles_for_cuda(many)


def test_a_loop_that_threads_share(target, tmp_path):
    """Locals that its entries read, add up, and that are read behind it."""
    names = """x row live_in live_out reductions many_prologue many_reductions I a it t fetch
        permutation Plus Maximum join add meta write edge end std linux row_ live_in_ k1_ _ é r
        s 变量 position reach launch""".split()
    sums, live = names[::2], names[1::2]
    lines = [f"    {n} = p_0.v + {i}" for i, n in enumerate(live)]
    lines += [f"    {n} = {i}" for i, n in enumerate(sums)]
    lines += ["    for q_0 in p_0.outnbrs:"]
    lines += [f"        {s} += q_0.v * {v}" for s, v in zip(sums, live, strict=False)]
    lines += [f"    p_0.out += {n} * {i}" for i, n in enumerate(names)]
    many = module(tmp_path, "@morph_0.kernel\ndef many(p_0):\n" + "\n".join(lines)).many
    g = points(target, v=i64, out=i64)
    g.points.v[:] = [1, 2, 3, 4]
    morph.foreach(g.points, many)
    want = []
    for p, outs in ((1, [2, 3]), (2, [3]), (3, [4]), (4, [1])):
        at = {n: p + i for i, n in enumerate(live)}
        at |= {n: i for i, n in enumerate(sums)}
        for s, v in zip(sums, live, strict=False):
            at[s] += sum(q * at[v] for q in outs)
        want.append(sum(at[n] * i for i, n in enumerate(names)))
    assert values(g.points, "out") == want
    compiles_for_cuda(many)


@pytest.mark.unchecked  # a checked text of so many statements compiles for minutes
def test_a_claim(target, tmp_path, worst):
    """Locals that live from before ``single`` until after it, the claimed collection among them."""
    names = [n for n in worst if not hasattr(builtins, n)]
    mine, *live = ["g_points_reservation", *(n for n in names if n != "g_points_reservation")]
    lines = [f"    {n} = p_0.v + {i}" for i, n in enumerate(live)]
    lines += [f"    {mine} = g_0.points.local(2)", f"    {mine}.add(p_0)"]
    lines += [f"    if single_0({mine}):"]
    lines += [f"        p_0.out += {n} * {i}" for i, n in enumerate(live)]
    text = "single_0 = morph_0.prelude.single\n@morph_0.kernel\ndef many(p_0, g_0):\n"
    many = module(tmp_path, text + "\n".join(lines)).many
    g = points(target, v=i64, out=i64)
    g.points.v[:] = [1, 2, 3, 4]
    morph.foreach(g.points, many, g)
    want = [sum((v + i) * i for i in range(len(live))) for v in (1, 2, 3, 4)]
    assert values(g.points, "out") == want
    compiles_for_cuda(many)


@pytest.mark.unchecked  # a checked text of so many statements compiles for minutes
def test_columns(target, tmp_path, worst):
    """Columns of rows, packed or not, and of entries on their way to a collection."""
    g = points(target)
    names = []
    for n in worst:
        try:
            g.points.add(n, i64)
            names.append(n)
        except ValueError:  # methods of rows, names that begin with "_", another form of a letter
            normal = unicodedata.normalize("NFKC", n)
            assert n.startswith("_") or n in type(g.points).reserved or n != normal
    carried = [n for n in names[::9] if n not in {"item", *morph.Collection.reserved}]
    then = morph.Collection(g.points, **dict.fromkeys(carried, i64))
    g.points.pack(*names[:8])
    given = ", ".join(f"{n}=p_0.{n} + 1" for n in carried)
    text = "@morph_0.kernel\ndef many(p_0, then_0):\n    for q_0 in p_0.outnbrs:\n"
    text += "".join(f"        atomic_0(q_0.{n}, {i})\n" for i, n in enumerate(names[::3]))
    text += f"        then_0.add(q_0, {given})\n@morph_0.kernel\ndef all_0(p_0):\n"
    text += "".join(f"    p_0.{n} += {i % 11}\n" for i, n in enumerate(names))
    home = module(tmp_path, "atomic_0 = morph_0.prelude.atomic_add\n" + text)
    for n, start in zip(names[::9], itertools.count(5)):
        getattr(g.points, n)[:] = start
    morph.foreach(g.points, home.all_0)
    before = {n: np.array(values(g.points, n)) for n in names}
    assert [x[0] for x in before.values()] == [
        i % 11 + (5 + i // 9 if i % 9 == 0 else 0) for i in range(len(names))
    ]
    morph.foreach(g.points, home.many, then)
    degree = np.array([1, 1, 2, 1])
    for i, n in enumerate(names[::3]):
        assert (np.array(values(g.points, n)) == before[n] + i * degree).all()
    assert len(then) == 5
    for kernel in (home.many, home.all_0):
        compiles_for_cuda(kernel)


def test_tables_collections_flags_and_sets(target, tmp_path, worst):
    """Objects as parameters: their names begin those of all their words and columns."""
    names = [n for n in worst if not hasattr(builtins, n) and n != "many"][::2]
    kinds = {n: "tclftlfs"[i % 8] for i, n in enumerate(names)}
    g = points(target)
    objects = []
    for kind in kinds.values():
        if kind == "t":
            objects.append(rows(target, 1, v=i64, arg_=i64, b_c=i64))
        elif kind == "c":
            objects.append(morph.Collection(g.points, w=i64))
        else:
            objects.append(
                morph.Flag(g) if kind == "l" else morph.Set(g.points) if kind == "s" else g
            )
    lines = []
    for n, kind in kinds.items():
        at = names.index(n)
        if kind == "t":
            lines.append(f"    {n}[0].v += {at}")
        elif kind == "c":
            lines.append(f"    {n}.add(p_0, w={at})")
        elif kind == "l":
            lines.append(f"    {n}.set()")
    text = f"@morph_0.kernel\ndef many(p_0, {', '.join(names)}):\n" + "\n".join(lines)
    text += f"\n@morph_0.program\ndef all_0(only_0, {', '.join(names)}):\n"
    text += f"    morph_0.foreach(only_0, many, {', '.join(names)})\n"
    home = module(tmp_path, text)
    only = morph.Collection(g.points)
    only.add(0)
    morph.foreach(only, home.many, *objects)
    home.all_0(only, *objects)
    for i, (kind, x) in enumerate(zip(kinds.values(), objects, strict=True)):
        if kind == "t":
            assert values(x, "v") == [2 * i]
        elif kind == "c":
            assert values(x, "w")[: len(x)] == [i, i]
        elif kind == "l":
            assert x.raised
    compiles_for_cuda(home.many)
    if target != "python":
        compiles_for_cuda(home.all_0)


def test_variables_of_a_program(target, tmp_path, worst):
    names = [n for n in worst if not hasattr(builtins, n)]
    lines = [f"    {n} = start_0 + {i}" for i, n in enumerate(names)]
    lines += ["    while again_0.take():", "        morph_0.foreach(t_0, bump)"]
    lines += [f"        {n} += t_0[0].v" for n in names]
    text = "@morph_0.kernel\ndef bump(r_0):\n    r_0.v += 1\n@morph_0.program\n"
    total = " + ".join(f"{n} * {i % 7}" for i, n in enumerate(names[:40]))
    text += "def many(t_0, again_0, start_0):\n" + "\n".join(lines) + f"\n    return {total}\n"
    many = module(tmp_path, text).many
    t = rows(target, v=i64)
    again = morph.Flag(t.device)
    again.set()
    assert many(t, again, 5) == sum((6 + i) * (i % 7) for i in range(40))
    if target != "python":
        compiles_for_cuda(many)


@pytest.mark.parametrize(
    "name", ["std", "变量", "main", "run", "é_", "x1", "morph_x", "linux", "_"]
)
def test_kernels_and_programs(target, tmp_path, name):
    text = f"@morph_0.kernel\ndef {name}(p_0, then_0):\n    for q_0 in p_0.outnbrs:\n"
    text += f"        then_0.add(q_0)\nkernel_0 = {name}\n@morph_0.program\n"
    text += f"def {name}(g_0, then_0):\n    morph_0.foreach(g_0.points, kernel_0, then_0)\n"
    text += f"program_0 = {name}\n"
    home = module(tmp_path, text)
    g = points(target)
    then = morph.Collection(g.points)
    morph.foreach(g.points, home.kernel_0, then)
    home.program_0(g, then)
    assert len(then) == 10
    compiles_for_cuda(home.kernel_0, named=True)


def test_words_of_two_objects_of_similar_names(target):
    """``x`` with a column ``y_v`` and ``x_y`` with a column ``v``; a table that is called "out"."""
    g = points(target)
    g.add_table("out", offset=i64)
    g.add_table("a", b_c=i64)
    g.add_table("a_b", c=i64)
    g.out.extend(1), g.a.extend(1), g.a_b.extend(1)
    x, x_y = rows(target, y_v=i64, lock_=i64, lock=i64), rows(target, v=i64)
    morph.foreach(x, similar, x, x_y, g)
    assert values(x, "y_v") + values(x_y, "v") == [1, 2]
    assert values(x, "lock") + values(x, "lock_") == [3, 4]
    assert values(g.out, "offset") + values(g.a, "b_c") + values(g.a_b, "c") == [2, 5, 6]
    compiles_for_cuda(similar)


@morph.kernel
def similar(r, x, x_y, g):
    x[0].y_v, x_y[0].v = 1, 2
    x[0].lock, x[0].lock_ = 3, 4
    for t in g.points[0].outnbrs:
        g.out[0].offset += 1 + t.id * 0
    g.a[0].b_c, g.a_b[0].c = 5, 6


def test_names_of_the_checks(target, tmp_path):
    """Locals with the names of what checked texts call, which only these contain."""
    found = identifiers(prelude(True)) - identifiers(prelude())
    names = sorted(n for n in found if not keyword.iskeyword(n) and not hasattr(builtins, n))
    assert "check_get" in names and "Shadow" in names
    lines = [f"    {n} = r_0.v + {i}" for i, n in enumerate(names)]
    lines += [f"    r_0.out += {n}" for n in names]
    text = "@morph_0.kernel\ndef many(r_0):\n" + "\n".join(lines)
    many = module(tmp_path, text).many
    t = rows(target, v=i64, out=i64)
    t.v[:] = 5
    morph.foreach(t, many, check=True)
    assert values(t, "out") == [sum(5 + i for i in range(len(names)))]
    compiles_for_cuda(many)
