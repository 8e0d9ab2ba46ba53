"""Where a run's settings come from: flags its parsers know, config files and scripts it reads, modules of its own.

Only listens; asked for by `upshift tune`, from the program's first line until it trains.
"""

from __future__ import annotations

import os
import sys

from . import parsers
from .arrival import when_imported

_SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties", ".gin", ".py")
_MOST_FILES = 400


class Settings:
    """Collects; sends once the process trains."""

    def __init__(self, emitter) -> None:
        self.emitter = emitter
        self.files: dict = {}
        self.flags: dict = {}
        self.switches: dict = {}
        """Flags that take no value → the flag that says no, or None."""
        self.overrides: dict = {}
        """Keys that `key=value` on the command line would set, as hydra takes them, with the value each had."""
        self.listening = True

    def listen(self) -> None:
        """Begin."""
        if hasattr(sys, "addaudithook"):
            sys.addaudithook(self._audit)
        when_imported("argparse", self._watch_argparse)
        parsers.listen(self)

    def guarded(self, note, *args, **kwargs) -> None:
        """A parser of another make than was thought: its flags go unseen."""
        try:
            note(*args, **kwargs)
        except Exception as error:
            self.emitter.emit("probe_failed", probe="settings", error=repr(error))

    def _audit(self, event: str, args) -> None:
        # Called for every audit event of the process: out at once for all but opening a config for reading.
        if event != "open" or not self.listening:
            return
        path, mode = args[0], args[1]
        if not isinstance(path, str) or not path.endswith(_SUFFIXES) or (mode and set(mode) & set("wax+")):
            return
        if len(self.files) < _MOST_FILES:
            full = os.path.abspath(path)
            if "site-packages" not in full and not full.startswith((sys.base_prefix, "/usr/lib", "/proc")):
                self.files[full] = None

    def _watch_argparse(self, argparse) -> None:
        original = argparse.ArgumentParser.parse_known_args

        def parse_known_args(parser, args=None, namespace=None, *rest, **kwargs):
            result = original(parser, args, namespace, *rest, **kwargs)
            self.guarded(self._note, parser, result[0])
            return result

        parse_known_args.__doc__ = original.__doc__
        parse_known_args.__wrapped__ = original
        argparse.ArgumentParser.parse_known_args = parse_known_args

    def _note(self, parser, namespace) -> None:
        for action in parser._actions:
            flag = next((f for f in action.option_strings if f.startswith("--")), None)
            flag = flag or next(iter(action.option_strings), None)
            if flag is None:
                continue
            value = getattr(namespace, action.dest, None)
            if action.nargs == 0:
                negated = next((f for f in action.option_strings if f.startswith("--no-")), None)
                if isinstance(value, bool) and (negated or getattr(action, "const", None) is True):
                    self.switches[flag] = negated
                continue
            if value is None or isinstance(value, (bool, int, float, str)):
                self.flags[flag] = value

    def send(self) -> None:
        """The process trains: what has been read until now is what it is set up with."""
        if not self.listening:
            return
        self.listening = False
        self.guarded(parsers.parsed, self)
        modules = []
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file.endswith(".py") and "site-packages" not in file:
                full = os.path.abspath(file)
                if (
                    not full.startswith((sys.base_prefix, "/usr/lib"))
                    and "upshift" not in full.split(os.sep)[-2:]
                ):
                    modules.append(full)
        files = [f for f in (*self.files, *modules) if "upshift_agent" not in f]
        self.emitter.emit(
            "settings",
            flags=list(self.flags.items()),
            switches=list(self.switches.items()),
            overrides=list(self.overrides.items()),
            files=list(dict.fromkeys(files)),
        )
