"""Read the next item in a thread while the present one is worked on."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from queue import Empty, Full, Queue
from typing import Any, TypeVar

__all__ = ["ahead"]

T = TypeVar("T")
POLL = 0.1  # seconds after which a waiting reader looks whether anybody still listens


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the items in their order; the next one is made in a thread meanwhile.

    An error of the thread is raised here, at its place. When the caller stops early, the thread
    ends after the item in hand. At most three items exist at a time: the present one, one that
    waits, one in the making.

    Parameters
    ----------
    items : iterable
        What is slow to read; it is only used by the thread.
    """
    ready: Queue[tuple[str, Any]] = Queue(maxsize=1)
    stop = threading.Event()

    def hand(kind: str, value: Any) -> bool:
        while not stop.is_set():
            try:
                ready.put((kind, value), timeout=POLL)
                return True
            except Full:
                continue
        return False

    def work() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                if not hand("item", item):
                    return
                del item
            hand("end", None)
        except BaseException as error:  # raised again where the item was asked for
            hand("error", error)
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    # the options of config(...) hold in the thread as well
    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
            del value
    finally:
        stop.set()
        while thread.is_alive():
            try:
                ready.get_nowait()
            except Empty:
                thread.join(POLL)
