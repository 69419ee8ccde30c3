"""How every loop is compiled: cached, without the GIL, never with Numba's own threads.

Numba does not hear Ctrl-C well: half imported, it cannot be imported again, and in the middle of a
compilation the signal is lost. So another thread imports it and compiles, while the caller listens.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from mercer.threads import listening

listening(import_module, "numba")

from numba import njit  # noqa: E402
from numba.core.caching import FunctionCache  # noqa: E402


class ForgivingCache(FunctionCache):
    """Numba's files of compiled code; one that is damaged or cannot be written stops no work."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is in the file, or None, to compile anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # what is no pickle may raise anything
            index = self._cache_file._index_path
            try:
                self.flush()
            except OSError:
                self.disable()
                warnings.warn(
                    f"mercer: the compiled code of {index!r} cannot be read "
                    f"({type(error).__name__}: {error}), and the file cannot be replaced. It is "
                    "compiled anew in every process; remove the file.",
                    stacklevel=2,
                )
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code, where that is possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self.disable()
            why = getattr(error, "strerror", None) or type(error).__name__
            warnings.warn(
                f"mercer: compiled code cannot be kept in {self.cache_path!r} ({why}), so it is "
                "compiled anew in every process; make room there, or let NUMBA_CACHE_DIR name "
                "another folder.",
                stacklevel=2,
            )


def compiled(function: Callable) -> Any:
    """Compile a function with mercer's options; without a writable cache, compile uncached."""
    dispatcher = njit(function, nogil=True, fastmath={"contract", "nsz"})
    if dispatcher is function:  # NUMBA_DISABLE_JIT
        return function
    with suppress(RuntimeError):  # Numba: "cannot cache function: no locator available"
        dispatcher._cache = ForgivingCache(function)
    compile_for = dispatcher._compile_for_args  # what a call with new types asks for
    dispatcher._compile_for_args = lambda *args, **kws: listening(compile_for, *args, **kws)
    return dispatcher
