"""Second best where no overlay can be laid: Python-level writes of a probe go to scratch.

A path opened for writing is mapped below `upper`; one that exists there already is read from there. Writers in
C++ and Rust that are given a path (torch.save's zip writer, safetensors) are mapped at their Python entrance.
Native code that opens files by itself is out of reach, and the profile says so.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import sys

from .arrival import when_imported

_WRITING = set("wax+")
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/")


def install(settings: dict) -> None:
    """Patch the entrances. `settings`: {"upper": folder, "through": [folders left alone]}."""
    layer = _Layer(settings["upper"], settings.get("through", ()))
    _wrap_opens(layer)
    _wrap_paths(layer)
    when_imported("torch", lambda torch: _wrap_torch(torch, layer))
    when_imported("safetensors", lambda module: _wrap_first_path(module, "serialize_file", layer, arg=1))
    when_imported("sqlite3", lambda module: _wrap_first_path(module, "connect", layer))


class _Layer:
    """The map from the user's paths to scratch, and what has been deleted in it."""

    def __init__(self, upper: str, through) -> None:
        self.upper = upper
        import tempfile

        home_cache = os.path.join(os.path.expanduser("~"), ".cache")
        self.through = tuple(
            os.path.join(os.path.realpath(p), "") for p in (*through, upper, home_cache, sys.prefix)
        )
        # Temporary files are nobody's work, unless the work itself is in the temporary folder.
        temporary = os.path.join(os.path.realpath(tempfile.gettempdir()), "")
        if not (os.getcwd() + os.sep).startswith(temporary):
            self.through += (temporary,)
        self.gone: set = set()

    def covers(self, path) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False  # a descriptor
        full = self.full(path)
        return not (full + "/").startswith(_SYSTEM + self.through)

    def full(self, path) -> str:
        return os.path.abspath(os.fsdecode(os.fspath(path)))

    def shadow(self, path) -> str:
        """The scratch twin of a path."""
        return self.upper + self.full(path)

    def reading(self, path):
        """Where to read `path` from."""
        if not self.covers(path):
            return path
        twin = self.shadow(path)
        if _exists(twin) or self.full(path) in self.gone:
            return twin
        return path

    def writing(self, path, keep: bool = True):
        """Where to write `path` to; with `keep`, its present content is copied there first."""
        if not self.covers(path):
            return path
        twin = self.shadow(path)
        full = self.full(path)
        if _isdir(os.path.dirname(full)) or _isdir(os.path.dirname(twin)):
            _makedirs(os.path.dirname(twin), exist_ok=True)
        if keep and not _exists(twin) and full not in self.gone and _isfile(full):
            _copy(full, twin)
        self.gone.discard(full)
        return twin

    def forget(self, path) -> None:
        """The run deleted it."""
        self.gone.add(self.full(path))


_exists, _isdir, _isfile = os.path.lexists, os.path.isdir, os.path.isfile
_makedirs = os.makedirs
_listdir, _scandir = os.listdir, os.scandir
_real_open = io.open


def _copy(source: str, target: str) -> None:
    with _real_open(source, "rb") as old, _real_open(target, "wb") as new:
        shutil.copyfileobj(old, new)


def _wrap_opens(layer: _Layer) -> None:
    real_os_open = os.open

    def open_(file, mode="r", *args, **kwargs):
        if _WRITING & set(mode):
            return _real_open(layer.writing(file, keep="w" not in mode), mode, *args, **kwargs)
        return _real_open(layer.reading(file), mode, *args, **kwargs)

    def os_open(path, flags, *args, **kwargs):
        if kwargs.get("dir_fd") is None:
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            path = layer.writing(path, keep=not flags & os.O_TRUNC) if writes else layer.reading(path)
        return real_os_open(path, flags, *args, **kwargs)

    open_.__doc__, os_open.__doc__ = _real_open.__doc__, real_os_open.__doc__
    builtins.open = io.open = open_
    os.open = os_open
    # pathlib and others hold `io.open` by attribute; `_io.open` itself cannot be replaced.


def _wrap_paths(layer: _Layer) -> None:
    """The calls that make, move and delete, and the looks that must agree with them."""

    def writes(name, function):
        def wrapper(path, *args, **kwargs):
            return function(layer.writing(path), *args, **kwargs)

        wrapper.__name__ = name
        return wrapper

    def reads(name, function):
        def wrapper(path=".", *args, **kwargs):
            return function(layer.reading(path), *args, **kwargs)

        wrapper.__name__ = name
        return wrapper

    def removes(name, function):
        def wrapper(path, *args, **kwargs):
            if not layer.covers(path) or kwargs.get("dir_fd") is not None:
                return function(path, *args, **kwargs)
            twin = layer.shadow(path)
            original = layer.full(path)
            if _exists(twin):
                function(twin, *args, **kwargs)
            elif original in layer.gone or not _exists(original):
                return function(twin, *args, **kwargs)  # raises as the real one would
            layer.forget(path)

        wrapper.__name__ = name
        return wrapper

    def moves(name, function):
        def wrapper(source, target, *args, **kwargs):
            if not layer.covers(source) and not layer.covers(target):
                return function(source, target, *args, **kwargs)
            result = function(layer.writing(source), layer.writing(target, keep=False), *args, **kwargs)
            layer.forget(source)
            return result

        wrapper.__name__ = name
        return wrapper

    def makes(name, function):
        def wrapper(path, *args, **kwargs):
            if layer.covers(path) and _exists(layer.reading(path)):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
            return function(layer.writing(path), *args, **kwargs)

        wrapper.__name__ = name
        return wrapper

    def links(name, function):
        def wrapper(source, target, *args, **kwargs):
            return function(source, layer.writing(target, keep=False), *args, **kwargs)

        wrapper.__name__ = name
        return wrapper

    os.mkdir = makes("mkdir", os.mkdir)
    os.symlink = links("symlink", os.symlink)
    os.link = links("link", os.link)
    for name in ("truncate", "chmod", "chown", "utime"):
        setattr(os, name, writes(name, getattr(os, name)))
    os.remove = os.unlink = removes("unlink", os.unlink)
    os.rmdir = removes("rmdir", os.rmdir)
    os.rename = moves("rename", os.rename)
    os.replace = moves("replace", os.replace)
    os.stat = reads("stat", os.stat)
    os.lstat = reads("lstat", os.lstat)
    os.access = reads("access", os.access)
    os.readlink = reads("readlink", os.readlink)
    _wrap_listings(layer)
    shutil._use_fd_functions = False  # rmtree by descriptor would pass us by
    shutil.rmtree.avoids_symlink_attacks = False


def _wrap_listings(layer: _Layer) -> None:
    """A folder's entries: the run's own first, then the originals it has not replaced or deleted."""

    class Entries(list):
        def __enter__(self):
            return iter(self)

        def __exit__(self, *_):
            return None

        close = __exit__

        def __next__(self):  # scandir's result is its own iterator
            if not self:
                raise StopIteration
            return self.pop(0)

    def scandir(path="."):
        if not layer.covers(path):
            return _scandir(path)
        found = {}
        twin, original = layer.shadow(path), layer.full(path)
        if _isdir(twin):
            found.update((e.name, e) for e in _scandir(twin))
        try:
            originals = [] if original in layer.gone else list(_scandir(path))
        except FileNotFoundError:
            if not _isdir(twin):
                raise
            originals = []
        for entry in originals:
            if os.path.join(original, os.fsdecode(entry.name)) not in layer.gone:
                found.setdefault(entry.name, entry)
        return Entries(_Entry(e, os.path.join(os.fspath(path), e.name)) for e in found.values())

    def listdir(path="."):
        if not layer.covers(path):
            return _listdir(path)
        return [entry.name for entry in scandir(path)]

    os.scandir, os.listdir = scandir, listdir


class _Entry:
    """A directory entry under the path the program knows."""

    def __init__(self, entry, path) -> None:
        self._entry = entry
        self.name, self.path = entry.name, path

    def __fspath__(self):
        return self.path

    def __getattr__(self, name):
        return getattr(self._entry, name)


def _wrap_torch(torch, layer: _Layer) -> None:
    """torch.save hands its path to C++; give it the scratch one."""
    import functools

    original = torch.save

    @functools.wraps(original)
    def save(obj, f, *args, **kwargs):
        if isinstance(f, (str, os.PathLike)):
            f = layer.writing(f, keep=False)
        return original(obj, f, *args, **kwargs)

    torch.save = save


def _wrap_first_path(module, name: str, layer: _Layer, arg: int = 0) -> None:
    import functools

    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        if len(args) > arg and isinstance(args[arg], (str, os.PathLike)):
            args = (*args[:arg], layer.writing(args[arg]), *args[arg + 1 :])
        return original(*args, **kwargs)

    setattr(module, name, wrapper)
