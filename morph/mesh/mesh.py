"""Triangle meshes as NumPy or CuPy arrays, with quality measures and plots."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from morph.language.arguments import boolean
from morph.language.hooks import Hook
from morph.language.messages import shortened
from morph.mesh.arrays import array_of, as_array, as_indices, first_number, home
from morph.mesh.errors import MeshError as MeshError
from morph.mesh.errors import Violation
from morph.mesh.halfedges import edge_keys as edge_keys
from morph.mesh.halfedges import find_neighbors as find_neighbors
from morph.mesh.halfedges import hull_edges
from morph.mesh.interop import from_triangle, library_of, to_geo, to_triangle
from morph.mesh.quality import Quality, Shapes, chunks, measure
from morph.mesh.validation import violations
from morph.mesh.voronoi import Voronoi, voronoi
from morph.runtime.arrays import all_true
from morph.runtime.device import Array, Device, device

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

draw: Hook[Figure] = Hook()  # plotting.mesh
save: Hook[None] = Hook()  # plotting.mesh
preview: Hook[bytes | None] = Hook()  # plotting.mesh

read_mesh: Hook[Mesh] = Hook()  # io
write_mesh: Hook[None] = Hook()  # io
from_meshio: Hook[Mesh] = Hook()  # io
to_meshio: Hook[Any] = Hook()  # io
from_pyvista: Hook[Mesh] = Hook()  # io
to_pyvista: Hook[Any] = Hook()  # io
find_simplex: Hook[Array] = Hook()  # algorithms.triangulation
interpolate: Hook[Array] = Hook()  # algorithms.triangulation

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def _empty(*shape: int, dtype: Any = np.int32) -> Callable[[], NDArray[Any]]:
    return lambda: np.empty(shape, dtype)


def _are_among(keys: Array, others: Array, xp: Any) -> Array:
    """Like `numpy.isin`, which would import `numpy.ma` (20 ms)."""
    if not others.size:
        return xp.zeros(keys.size, bool)
    ordered = xp.sort(others)
    return ordered[xp.minimum(xp.searchsorted(ordered, keys), ordered.size - 1)] == keys


@dataclass(eq=False)
class Mesh:
    """A planar triangle mesh with constrained edges.

    Only ``points`` and ``triangles`` are required; missing or empty arrays are computed.  Every
    edge at the hull is a segment: missing hull edges are appended to ``segments``.

    All arrays are NumPy arrays, or all are CuPy arrays on one GPU; computed arrays are on the same
    device.  A contiguous array of the dtype below is not copied: later changes of it change the
    mesh.

    Parameters
    ----------
    points : (n, 2) float64 array
    triangles : (m, 3) int32 array
        Corners, counter-clockwise, as rows of ``points``.
    neighbors : (m, 3) int32 array
        The triangle across the edge opposite corner k; -1 at the hull.
    segments : (s, 2) int32 array
        Constrained edges.
    segment_markers : (s,) int32 array
        By default 1 at the hull, 0 inside.
    point_markers : (n,) int32 array
        By default 1 for points of the hull, 0 for other points.
    point_attributes : (n, k) float64 array
    triangle_attributes : (m, k) float64 array
    holes : (h, 2) float64 array
        A point in each hole, from or for a ``.poly`` file.
    regions : (r, 4) float64 array
        ``x, y, attribute, maximum area`` of each region, from or for a ``.poly`` file.
    base : int
        Number of the first vertex in files: 0 or 1.  Indices in arrays always begin at 0.

    Raises
    ------
    ValueError
        If a shape or dtype is wrong, an index is out of range, the arrays are on several devices,
        or ``base`` is neither 0 nor 1.
    MeshError
        If several triangles lie on one side of an edge.
    """

    points: Floats
    triangles: Ints
    neighbors: Ints = field(default_factory=_empty(0, 3), repr=False)
    segments: Ints = field(default_factory=_empty(0, 2), repr=False)
    segment_markers: Ints = field(default_factory=_empty(0), repr=False)
    point_markers: Ints = field(default_factory=_empty(0), repr=False)
    point_attributes: Floats = field(default_factory=_empty(0, 0, dtype=np.float64), repr=False)
    triangle_attributes: Floats = field(default_factory=_empty(0, 0, dtype=np.float64), repr=False)
    holes: Floats = field(default_factory=_empty(0, 2, dtype=np.float64), repr=False)
    regions: Floats = field(default_factory=_empty(0, 4, dtype=np.float64), repr=False)
    base: int = 0

    def __post_init__(self) -> None:
        where = home({f.name: getattr(self, f.name) for f in fields(self) if f.name != "base"})
        with where.active():
            self._complete(where)

    def _complete(self, where: Device) -> None:
        """Check every array, and compute missing ones."""
        xp = where.xp
        self.points = as_array("points", self.points, np.float64, ("any", 2), xp)
        n = len(self.points)
        self.triangles = as_indices("triangles", self.triangles, 3, n, xp)
        m = len(self.triangles)
        self.segments = as_indices("segments", self.segments, 2, n, xp)
        self.neighbors = as_indices("neighbors", self.neighbors, 3, m, xp, low=-1)
        if m and len(self.neighbors) == 0:
            self.neighbors = find_neighbors(self.triangles, n, xp)
        if len(self.neighbors) != m:
            raise ValueError(f"neighbors has {len(self.neighbors)} rows for {m} triangles")
        hull = hull_edges(self.triangles, self.neighbors, xp)
        self._complete_segments(hull, xp)
        markers = array_of("point_markers", self.point_markers, xp)
        if n and not markers.size:
            markers = xp.zeros(n, np.int32)
            markers[hull] = 1
        self.point_markers = as_array("point_markers", markers, np.int32, (n,), xp)
        for name, rows in (("point_attributes", n), ("triangle_attributes", m)):
            given = array_of(name, getattr(self, name), xp)
            shape = (rows, "any" if given.size else 0)
            setattr(self, name, as_array(name, given, np.float64, shape, xp))
        self.holes = as_array("holes", self.holes, np.float64, ("any", 2), xp)
        self.regions = as_array("regions", self.regions, np.float64, ("any", 4), xp)
        self.base = first_number(self.base)

    def _complete_segments(self, hull: Array, xp: Any) -> None:
        """Add missing hull edges to the segments, and missing markers."""
        n, given = len(self.points), len(self.segments)
        keys = edge_keys(hull[:, 0], hull[:, 1], n, xp)
        known = edge_keys(self.segments[:, 0], self.segments[:, 1], n, xp)
        markers = array_of("segment_markers", self.segment_markers, xp)
        if given and not markers.size:
            markers = _are_among(known, keys, xp).astype(np.int32)
        markers = as_array("segment_markers", markers, np.int32, (given,), xp)
        missing = hull[~_are_among(keys, known, xp)]
        if len(missing):
            self.segments = xp.concatenate([self.segments, missing])
            markers = xp.concatenate([markers, xp.ones(len(missing), np.int32)])
        self.segment_markers = markers

    @classmethod
    def trusted(cls, **arrays: Any) -> Mesh:
        """Make a mesh from valid and complete arrays, without checks.

        Makes no pass over the arrays and no copy.

        Parameters
        ----------
        **arrays : array or int
            As of `Mesh`, with the same dtypes and shapes, on one device; ``points, triangles,
            neighbors, segments, segment_markers, point_markers`` are required.
        """
        mesh = cls.__new__(cls)
        xp = home({"points": arrays["points"]}).xp
        rows = {"point_attributes": "points", "triangle_attributes": "triangles"}
        widths = {"point_attributes": 0, "triangle_attributes": 0, "holes": 2, "regions": 4}
        for name, width in widths.items():
            if arrays.get(name) is None:
                arrays[name] = xp.empty((len(arrays[rows[name]]) if name in rows else 0, width))
        arrays.setdefault("base", 0)
        if unknown := arrays.keys() - cls.__dataclass_fields__.keys():
            raise TypeError(f"a mesh has no {', '.join(unknown)}")
        mesh.__dict__.update({name: arrays[name] for name in cls.__dataclass_fields__})
        return mesh

    @property
    def device(self) -> Device:
        """Device of the arrays: ``cpu``, or ``cuda:N`` for CuPy arrays."""
        return home({"points": self.points})

    def to(self, spec: str | Device) -> Mesh:
        """Return the mesh on a device; the mesh itself if it is already there.

        Parameters
        ----------
        spec : str or Device
            ``"cpu"``, ``"cuda"``, ``"cuda:N"``, ``"auto"``; NumPy arrays on the CPU, else CuPy
            arrays.

        Raises
        ------
        ValueError, DeviceError
            See `morph.device`.
        """
        there = device(spec)
        if there.xp is np and self.device.xp is np or there == self.device:
            return self
        names = [f.name for f in fields(self) if f.name != "base"]
        arrays = there.asarrays(*(getattr(self, name) for name in names))
        return Mesh.trusted(**dict(zip(names, arrays, strict=True)), base=self.base)

    @classmethod
    def of(cls, source: Any) -> Mesh:
        """Convert a mesh of another library, or read a file; a `Mesh` is returned unchanged.

        Clockwise triangles are reoriented.

        Parameters
        ----------
        source : Mesh, path, meshio.Mesh, pyvista.PolyData, pyvista.UnstructuredGrid or dict
            Dicts are those of Triangle's Python wrapper, with ``vertices`` and ``triangles``.  None
            of these libraries is imported to recognise its types.

        Raises
        ------
        TypeError
            If ``source`` is none of these.
        ValueError, MeshError
            See `morph.io.from_meshio` and the constructor.
        FormatError, OSError
            If a file cannot be read.
        """
        if isinstance(source, Mesh):
            return source
        if isinstance(source, str | os.PathLike):
            return cls.read(source)
        library = library_of(source)
        if library == "meshio":
            return from_meshio(source)
        if library == "pyvista":
            return from_pyvista(source)
        if library == "triangle":
            return cls(**from_triangle(source, triangles=True))
        raise TypeError(
            f"no mesh can be made of {shortened(type(source).__name__, 40)}: expected a mesh of"
            " meshio or PyVista, or a dict of Triangle; morph.triangulate takes points and polygons"
        )

    @staticmethod
    def accepts(source: Any) -> bool:
        """Return whether `of` can convert an object, other than a path or a `Mesh`."""
        library = library_of(source)
        return library in ("meshio", "pyvista") or library == "triangle" and "triangles" in source

    def to_meshio(self, three_d: bool = False, order: int = 1) -> Any:
        """Return a ``meshio.Mesh``.  See `morph.io.to_meshio`."""
        return to_meshio(self, three_d, order)

    def to_pyvista(self) -> Any:
        """Return a ``pyvista.UnstructuredGrid``.  See `morph.io.to_pyvista`."""
        return to_pyvista(self)

    def to_triangle(self) -> dict[str, Any]:
        """Return a dict in the format of Triangle's Python wrapper.

        Returns
        -------
        dict of str to array
            ``vertices``, ``vertex_markers`` (n, 1), ``triangles``, ``segments``,
            ``segment_markers`` (s, 1), and, unless empty, ``vertex_attributes``,
            ``triangle_attributes``, ``holes`` and ``regions``; NumPy arrays, shared with the mesh
            if it is on the host.
        """
        return to_triangle(self.to("cpu"))

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """The triangles as a GeometryCollection of polygons, which Shapely reads."""
        return to_geo(self.to("cpu"))

    @classmethod
    def read(cls, path: str | os.PathLike[str], repair: bool = False) -> Mesh:
        """Read a mesh from ``.node``, ``.ele`` and, if it exists, ``.poly``.

        Other formats are read by meshio.  See `morph.io.read_mesh`.
        """
        return read_mesh(path, repair)

    def write(self, base: str | os.PathLike[str], order: int = 1) -> None:
        """Write ``base.node``, ``base.ele`` and ``base.poly``.

        Other formats (``m.msh``) are written by meshio.  See `morph.io.write_mesh`.
        """
        write_mesh(self, base, order)

    def compact(self) -> Mesh:
        """Return the mesh without points that are in no triangle; itself if there are none.

        The order of the other points is preserved.  Unused points are those that
        `morph.triangulate` merged, and those in holes and concavities.
        """
        where, n = self.device, len(self.points)
        xp = where.xp
        with where.active():
            used = xp.zeros(n, np.bool_)
            used[self.triangles], used[self.segments] = True, True
            if all_true(used):
                return self
            rows = xp.cumsum(used, dtype=np.int32) - np.int32(1)
            values = {f.name: getattr(self, f.name) for f in fields(self)}
            for name in ("points", "point_markers", "point_attributes"):
                values[name] = values[name][used]
            for name in ("triangles", "segments"):
                values[name] = rows[values[name]]
        return Mesh.trusted(**values)

    def voronoi(self) -> Voronoi:
        """Return the dual: circumcentres of triangles, joined across edges, and rays at the hull.

        For a conforming Delaunay mesh, this is the Voronoi diagram of its points.

        Returns
        -------
        Voronoi
            Arrays ``vertices``, ``edges``, ``directions``, ``sites``, ``attributes``, on the device
            of the mesh.
        """
        return voronoi(self)

    def find_simplex(self, points: Any, device: str | Device | None = None) -> Array:
        """Find the triangle that contains each of many points; exact.

        The mesh may have holes, concavities and several components.  Each call builds a search tree
        of the triangles, so one call for many points is fastest.

        Parameters
        ----------
        points : (k, 2) array
        device : str or Device, optional
            Device of the search; by default the GPU of the mesh, else see `morph.set_device`.

        Returns
        -------
        (k,) int32 array
            On the device; -1 for points outside and for points that are not finite; the least
            triangle for points on an edge or a vertex.

        Raises
        ------
        ValueError
            If the shape or type of ``points`` is wrong, or coordinates of the mesh are not finite,
            too large or too small.
        """
        return find_simplex(self, points, device)

    def interpolate(self, values: Any, points: Any, device: str | Device | None = None) -> Array:
        """Interpolate values given at the points of the mesh, linearly in each triangle.

        Parameters
        ----------
        values : (n,) or (n, d) array
            For each point of the mesh.
        points : (k, 2) array
            Query points.
        device : str or Device, optional
            As of `find_simplex`.

        Returns
        -------
        (k,) or (k, d) float64 array
            On the device; NaN outside of the mesh.

        Raises
        ------
        ValueError
            If the shape or type of ``values`` is wrong, and as by `find_simplex`.
        """
        return interpolate(self, values, points, device)

    def areas(self) -> Array:
        """Areas of the triangles, shape (m,); negative if clockwise."""
        return self._of_triangles(lambda shapes: shapes.areas())

    def angles(self) -> Array:
        """Angles at the corners of the triangles in degrees, shape (m, 3)."""
        return self._of_triangles(lambda shapes: shapes.angles().T, 3)

    def aspect_ratios(self) -> Array:
        """Longest edge by shortest altitude of each triangle, shape (m,).  See `Quality`."""
        return self._of_triangles(lambda shapes: shapes.aspects())

    def radius_edge_ratios(self) -> Array:
        """Circumradius by shortest edge of each triangle, shape (m,).  See `Quality`."""
        return self._of_triangles(lambda shapes: shapes.radius_edges())

    def _of_triangles(self, measured: Callable[[Shapes], Array], *width: int) -> Array:
        """Fill an array with one row per triangle, chunk by chunk."""
        where = self.device
        out, done = where.empty((len(self.triangles), *width), np.float64), 0
        with where.active():
            for part in chunks(self.triangles, where.xp):
                out[done : done + len(part)] = measured(Shapes(self.points, part, where.xp))
                done += len(part)
        return out

    def quality(self) -> Quality:
        """Measure angles, areas, edges and ratios in one pass over the triangles."""
        where = self.device
        with where.active():
            return measure(self.points, self.triangles, self.segments, where.xp)

    def violations(self, conforming: bool = False) -> list[Violation]:
        """List the violated invariants of the mesh.  See `validation.violations`.

        Exact arithmetic runs on the host: a mesh on a GPU is copied.

        Parameters
        ----------
        conforming : bool
            Whether the triangulation must be Delaunay also across segments.
        """
        conforming = boolean(conforming, "conforming")
        return violations(self.to("cpu"), conforming)

    def check(self, conforming: bool = False) -> None:
        """Raise `MeshError`, naming every violated invariant, unless the mesh is valid.

        The verifier shares no code with the refiner, and uses exact arithmetic.

        Parameters
        ----------
        conforming : bool
            Whether the triangulation must be Delaunay also across segments.
        """
        found = self.violations(conforming)
        if found:
            raise MeshError(found)

    def _repr_png_(self) -> bytes | None:
        """Return a small picture for notebooks; None if it cannot be drawn."""
        return preview(self)

    def _repr_html_(self) -> str:
        """Return sizes, angles and a small picture for notebooks."""
        sizes = (len(self.points), len(self.triangles), len(self.segments))
        text = "Mesh: {:,} points, {:,} triangles, {:,} segments".format(*sizes)
        if sizes[1]:
            quality = self.quality()
            angles = f"{quality.min_angle:.2f} to {quality.max_angle:.2f}"
            text += f"<br>angles {angles} degrees, area {quality.area:g}, {self.device.name}"
        drawn = preview(self)
        if drawn is not None:
            data = base64.b64encode(drawn).decode()
            text += f'<br><img alt="the mesh" src="data:image/png;base64,{data}">'
        return f"<div>{text}</div>"

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        color: str = "angle",
        values: Array | None = None,
        label: str | None = None,
        segments: bool = True,
        cmap: str | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Draw the mesh: coloured triangles, segments as dark lines, white holes.

        More than 20,000 triangles are rasterised, with the mean of the triangles in each pixel;
        tens of millions are drawn in seconds.

        Parameters
        ----------
        path : path-like, optional
            File of the picture; the suffix determines the format.
        color : str
            Quantity to show: ``"angle"``, the smallest angle of each triangle in degrees;
            ``"area"``, on a logarithmic scale without the smallest triangles, which together cover
            1 %; ``"density"``, triangles per area, counted in squares of pixels if rasterised;
            ``"region"``, the first triangle attribute; ``"none"``, one colour.
        values : (n,) or (m,) array, optional
            Values of points or triangles to show instead; of points if n = m.
        label : str, optional
            Label of the colour scale.
        segments : bool
            Whether segments are drawn.
        cmap : str, optional
            Name of a matplotlib colour map.
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        matplotlib Figure
            Figure of ``ax``, or the new one.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If ``color`` is unknown, ``values`` fits neither points nor triangles, or a coordinate
            is not finite.
        """
        figure = draw(self.to("cpu"), color, values, label, segments, cmap, ax)
        if path is not None:
            save(figure, path)
        return figure
