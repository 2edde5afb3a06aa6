"""Work that is enqueued on a GPU behind a launch, before the host waits for the launch."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Behind(threading.local):
    """What this thread enqueues behind each of its launches.

    Attributes
    ----------
    enqueue : callable or None
        Called again if the launch is repeated, since some of its items were deferred.
    """

    enqueue: Callable[[], None] | None = None

    def begin(self) -> None:
        """Enqueue the work, if there is some."""
        if self.enqueue is not None:
            self.enqueue()


behind = Behind()
