"""User names in the IR, and as C++ identifiers.

The identifiers differ from keywords, macros and names of the C++ text.
"""

from __future__ import annotations

import re
from collections.abc import Container

# Keywords and alternative tokens up to C++20, and names that compilers define without an include.
KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class clock_t co_await co_return co_yield compl concept const const_cast consteval
    constexpr constinit continue decltype default delete dim3 do double dynamic_cast else enum
    explicit export extern false float for friend goto i386 if inline int linux long main mutable
    namespace new noexcept not not_eq NULL nullptr operator or or_eq private protected ptrdiff_t
    public register reinterpret_cast requires return short signed size_t sizeof static
    static_assert static_cast std struct switch template this thread_local throw true try typedef
    typeid typename typeof union unix unsigned using va_list virtual void volatile wchar_t while
    xor xor_eq blockDim blockIdx gridDim threadIdx warpSize""".split()
)
# Patterns of macro and type names: of the implementation, the device runtime, CUDA and OpenMP.
FAMILIES = re.compile(
    r"__|_[A-Z]|MORPH_|Tuple_|CU(DA|DART|_|uuid)|NV_|cuda[A-Z_]|omp_|(tex|surf)[1-3C]"
    r"|(make_)?(u?(char|short|int|long|longlong)|float|double)[1-4](_\w+)?$"
)
# Also taken at namespace scope: the C library, as NVRTC declares it, and the printer's own names.
LIBRARY = frozenset(
    """abs acos acosh all any asin asinh assert atan atan2 atanh calloc cbrt ceil clock clock64
    copysign cos cosh cyl_bessel_i0 cyl_bessel_i1 dadd dmul dsub erf erfc erfcinv erfcx erfinv errno
    exit exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod free frexp hypot ilogb
    isfinite isinf isnan j0 j1 jn labs ldexp lgamma libraryPropertyType llabs llrint llround log
    log10 log1p log2 logb lrint lround malloc max memcpy memset min modf nan nearbyint nextafter
    norm normcdf normcdfinv pow printf rcbrt realloc remainder remquo rhypot rint rnorm rnorm3d
    rnorm4d round rsqrt scalbln scalbn signbit sin sincos sincospi sinh sqrt tan tanh tgamma trap
    trunc ullmax ullmin umax umin y0 y1 yn MAJOR_VERSION MINOR_VERSION PATCH_LEVEL""".split()
)
GLOBALS = re.compile(
    r"(Step|s|end|alone)\d+_\d+$|[xw]\d+$|morph_|atomic[A-Z]|\w+2(double|int|ll|uint|ull)$"
)


def ir_name(name: str) -> str:
    """The name of a user's local in the IR, different from temporaries such as ``t0_``."""
    return name + "_" if name.endswith("_") else name


def inlined_name(name: str, number: int) -> str:
    """The name of an inlined callee's local; it is no identifier of Python."""
    return f"{name}@{number}"


def user_name(name: str) -> str:
    """The user's spelling of a name in the IR, for messages; a field has a dot."""
    if "@" in name:
        return name.partition("@")[0]
    if not name.endswith("_"):
        return name
    return name[:-1] if name.endswith("__") else name[:-1].replace("__", ".")


def ascii_name(name: str) -> str:
    """Encode a name in ASCII: injective, and ASCII names are unchanged."""
    if name.isascii():
        return name
    base, _, code = name.encode("punycode").decode("ascii").rpartition("-")
    return f"utf8_{base}__{code}_"


def clashes(name: str, reserved: Container[str] = ()) -> bool:
    """Whether an identifier is reserved in the whole C++ text."""
    return name in KEYWORDS or name in reserved or FAMILIES.match(name) is not None


def spell(name: str, reserved: Container[str] = ()) -> str:
    """The C++ identifier of a user's name: followed by "_" if it is reserved or ends with "_"."""
    if "@" in name:
        return f"{ascii_name(name.replace('@', '__'))}_"
    if not name.isascii():
        return ascii_name(name)
    return f"{name}_" if name.endswith("_") or clashes(name, reserved) else name


def spell_global(name: str, reserved: Container[str] = ()) -> str:
    """The C++ identifier of a user's function or struct, at namespace scope."""
    found = spell(name, reserved)
    clash = name.removesuffix("f") in LIBRARY or name in LIBRARY or GLOBALS.match(name)
    return f"{name}_" if found == name and clash else found
