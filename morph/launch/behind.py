"""Work that is enqueued on a GPU behind a launch, before the host waits for the launch."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Behind(threading.local):
    """The work that this thread enqueues behind each of its launches on a GPU.

    Attributes
    ----------
    enqueue : callable or None
        Called after each launch, also after one that executes deferred items again: only the work
        behind the last launch reads final values.
    """

    enqueue: Callable[[], None] | None = None

    def enqueue_work(self) -> None:
        """Enqueue the work, if there is some."""
        if self.enqueue is not None:
            self.enqueue()


behind = Behind()
