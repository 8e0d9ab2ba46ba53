"""Waits for the user's own imports: a callback runs right after a named module has been executed.

The module's spec keeps its loader and type; only `exec_module` is set on the loader *instance*, and takes
itself off again, so that `inspect.getsource`, lazy loaders and reloads work as without us.
"""

from __future__ import annotations

import sys


class _Finder:
    """A meta path finder that finds nothing itself; it asks the others and prepares what they found."""

    def __init__(self) -> None:
        self.waiting: dict = {}
        self.report = None
        self._asking: set = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = None
            for finder in sys.meta_path:
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        finally:
            self._asking.discard(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        loader, original = spec.loader, spec.loader.exec_module

        def exec_module(module):
            try:
                del loader.exec_module
            except AttributeError:
                pass
            original(module)
            while self.waiting.get(name):  # a callback may ask for another on the same module
                for callback in self.waiting.pop(name):
                    self.call(callback, name, module)

        try:
            loader.exec_module = exec_module
        except (AttributeError, TypeError):
            pass  # a loader with slots: this module goes unseen, the import itself is fine
        return spec

    def call(self, callback, name, module) -> None:
        """Whatever goes wrong in here is ours: the user's import is done, and stays so."""
        try:
            callback(module)
        except Exception as error:
            if self.report is None:
                raise
            self.report(name, error)


_finder = _Finder()


def on_failure(report) -> None:
    """Call `report(name, error)` when a callback raises, instead of letting it into the user's import."""
    _finder.report = report


def when_imported(name: str, callback) -> None:
    """Call `callback(module)` once `name` has been imported; at once if it already is."""
    module = sys.modules.get(name)
    if module is not None and getattr(getattr(module, "__spec__", None), "_initializing", False) is False:
        _finder.call(callback, name, module)
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.waiting.setdefault(name, []).append(callback)


__all__ = ["on_failure", "when_imported"]
