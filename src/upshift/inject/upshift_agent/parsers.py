"""Command lines that something else than argparse parses: the flags each knows, and what they are by default.

Each tells `settings` what it knows before the program goes on; none of this changes what is parsed.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterator

from .arrival import when_imported

_PLAIN = (bool, int, float, str)


def listen(settings) -> None:
    """To each of them, should the program use it."""
    when_imported("click.core", lambda module: _click(module, settings))
    when_imported("typer._click.core", lambda module: _click(module, settings))  # newer ones bring their own
    when_imported("tyro._cli", lambda module: _tyro(module, settings))
    when_imported("fire.core", lambda module: _fire(module, settings))
    when_imported("hydra.core.utils", lambda module: _hydra(module, settings))


def parsed(settings) -> None:
    """What has been parsed by now, of those that keep it."""
    absl = sys.modules.get("absl.flags")
    if absl is None or not absl.FLAGS.is_parsed():
        return
    for name, value in absl.FLAGS.flag_values_dict().items():
        if absl.FLAGS[name].boolean:
            settings.switches["--" + name] = "--no" + name
        elif value is None or isinstance(value, _PLAIN):
            settings.flags["--" + name] = value


def _before(module, name, note) -> None:
    """Call `note` with the same arguments before `module.name` is called."""
    original = getattr(module, name)

    @functools.wraps(original)
    def call(*args, **kwargs):
        note(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(module, name, call)


def _click(module, settings) -> None:
    original = module.Command.parse_args

    @functools.wraps(original)
    def parse_args(command, context, args):
        rest = original(command, context, args)
        if not hasattr(command, "commands"):  # of a group, the flags must stand before the command
            settings.guarded(_note_click, settings, command, context)
        return rest

    module.Command.parse_args = parse_args


def _note_click(settings, command, context) -> None:
    for option in command.params:
        flag = next((o for o in option.opts if o.startswith("--")), None)
        value = context.params.get(option.name)
        if flag is None:
            continue
        if getattr(option, "is_flag", False):
            settings.switches[flag] = next((o for o in option.secondary_opts if o.startswith("--")), None)
        elif value is None or isinstance(value, _PLAIN):
            settings.flags[flag] = value


def _tyro(module, settings) -> None:
    def note(f, *args, default=None, **kwargs) -> None:
        for name, value in _defaults(f, default):
            flag = "--" + name.replace("_", "-")
            if isinstance(value, bool):
                front, dot, last = flag[2:].rpartition(".")
                settings.switches[flag] = "--" + front + dot + "no-" + last
            else:
                settings.flags[flag] = value

    _before(module, "cli", functools.partial(settings.guarded, note))


def _fire(module, settings) -> None:
    def note(component, args, parsed, context, *rest, **kwargs) -> None:
        commands = context if component is None else component
        if isinstance(commands, dict) and args:
            component = commands.get(args[0])
        if inspect.isfunction(component):
            settings.flags.update(("--" + name, value) for name, value in _defaults(component))

    # Not Fire itself: without a component it takes what it finds in its caller's frame, which would be ours.
    _before(module, "_Fire", functools.partial(settings.guarded, note))


def _hydra(module, settings) -> None:
    def note(task_function, config, *args, **kwargs) -> None:
        plain = sys.modules["omegaconf"].OmegaConf.to_container(config, resolve=False)
        plain.pop("hydra", None)
        settings.overrides.update(_flat(plain))

    _before(module, "run_job", functools.partial(settings.guarded, note))


def _defaults(f, default=None, prefix: str = "") -> Iterator[tuple]:
    """(name, value) of what a function or a class takes; what is within its dataclasses after a dot."""
    for name, parameter in inspect.signature(f).parameters.items():
        value = getattr(default, name, parameter.default)
        if dataclasses.is_dataclass(parameter.annotation) and isinstance(parameter.annotation, type):
            inner = value if isinstance(value, parameter.annotation) else None
            yield from _defaults(parameter.annotation, inner, prefix + name + ".")
        elif value is None or isinstance(value, _PLAIN):
            yield prefix + name, value


def _flat(node: dict, prefix: str = "") -> Iterator[tuple]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _flat(value, "%s%s." % (prefix, key))
        elif value is None or isinstance(value, _PLAIN):
            yield "%s%s" % (prefix, key), value
