"""Log records of the package on standard error: ``morph --verbose``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from morph.language.messages import shortened

_logger = logging.getLogger("morph")


class _OnStderr(logging.Handler):
    """Writes a line for each record."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the logger's name and the message."""
        click.echo(shortened(f"{record.name}: {record.getMessage()}"), err=True)


def _show() -> logging.Handler:
    handler = _OnStderr()
    _logger.addHandler(handler)
    _logger.setLevel(logging.DEBUG)
    return handler


@contextmanager
def logged() -> Iterator[None]:
    """Show all log records within the block."""
    level, handler = _logger.level, _show()
    try:
        yield
    finally:
        _logger.removeHandler(handler)
        _logger.setLevel(level)


def verbose() -> bool:
    """Whether log records are shown, which would interfere with progress lines."""
    return any(isinstance(h, _OnStderr) for h in _logger.handlers)


def log_in_worker(shown: bool) -> None:
    """Show all log records of this worker process, if the command shows log records."""
    if shown:
        _show()
