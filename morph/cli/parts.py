"""Commands on partitioned graphs: on several devices, and on the ranks of ``mpiexec``."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from morph.cli.common import BadInput, complain
from morph.cli.failures import explain
from morph.partition.transport import PartError

PATIENCE = 5.0  # seconds that a rank with an error waits for the others
# the rank of a process, by the variables of Open MPI, MPICH and Intel MPI, and Slurm
RANKS = "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"
DONE, STOPPED, FAILED = 0, 1, 2  # outcomes: success, error on another rank, error on this rank


def world(mpi: bool) -> Any:
    """Return the communicator of all ranks, or None without ``--mpi``."""
    if not mpi:
        return None
    try:
        from mpi4py import MPI  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('--mpi needs mpi4py: pip install "morph-engine[mpi]"') from error
    return MPI.COMM_WORLD


@contextmanager
def rank_0_first(mpi: bool) -> Iterator[None]:
    """Check options before MPI starts, with ``--mpi``: rank 0 reports an error that all ranks have.

    Meanwhile the others wait, until `mpiexec` ends them because rank 0 has failed.
    """
    try:
        yield
    except Exception:
        if mpi and next((os.environ[name] for name in RANKS if name in os.environ), "0") != "0":
            time.sleep(PATIENCE)
        raise


def refuse_ranks(ctx: click.Context, _: click.Parameter, mpi: bool) -> None:
    """Refuse ``--mpi`` where only the devices of one process can have parts."""
    if mpi:
        with rank_0_first(mpi):
            text = f"morph {ctx.info_name} runs in one process, without --mpi"
            raise BadInput(f"{text}: --device cuda:0,cuda:1 uses several devices")


@contextmanager
def ranks_of(mpi: bool) -> Iterator[None]:
    """Run a block on all ranks, with ``--mpi``.

    If a rank fails, all ranks end with exit code 2, and one of them reports the error.
    """
    comm = world(mpi)
    if comm is None:
        yield
        return
    error, outcome = None, DONE
    try:
        with warnings.catch_warnings():
            if comm.rank:
                warnings.simplefilter("ignore")
            yield
    except Exception as found:
        error, outcome = found, STOPPED if isinstance(found, PartError) else FAILED
    outcomes = _outcomes(comm, outcome, error)
    if max(outcomes) == DONE:
        return
    if error is not None and comm.rank == outcomes.index(max(outcomes)):
        raise error
    raise click.exceptions.Exit(2)


def _outcomes(comm: Any, outcome: int, error: Exception | None) -> list[int]:
    """Return the outcome of each rank; aborts all ranks after a timeout."""
    found = np.empty(comm.size, np.int64)
    request = comm.Iallgather(np.array([outcome], np.int64), found)
    since = time.monotonic()
    while not request.Test():
        if error is not None and time.monotonic() - since > PATIENCE:
            _report(error)
            comm.Abort(2)
        time.sleep(0.005)
    outcomes: list[int] = found.tolist()
    return outcomes


def _report(error: Exception) -> None:
    """Write the message of an error, and the traceback of an internal one."""
    if isinstance(error, click.ClickException):
        complain(error.format_message(), 2)
        return
    try:
        explain(error)
    except Exception:
        traceback.print_exception(error)
