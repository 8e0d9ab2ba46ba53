"""Every process below one, from /proc where there is one and from ps elsewhere."""

import os
import signal
import time

# They clean up shared memory and semaphores once the processes they serve are gone: let them go last.
_CLEANERS = ("resource_tracker", "torch_shm_manager")
_CLEANER_SECONDS = 1.0
_KILL_SECONDS = 10.0
_PAUSE_ROUNDS = 5


def descendants(root):
    """Pids of all living processes below `root`, parents before children."""
    return [pid for pid, _ in _below(root)]


def _below(root):
    """(pid, state) of the same."""
    children = {}
    for pid, parent, state in _processes():
        if state != "Z":
            children.setdefault(parent, []).append((pid, state))
    found, todo = [], [root]
    while todo:
        for pid, state in children.get(todo.pop(), ()):
            found.append((pid, state))
            todo.append(pid)
    return found


def signal_all(root, number):
    """Signal every descendant of `root`."""
    for pid in descendants(root):
        _send(pid, number)


def pause_all(root):
    """Stop every descendant of `root`; looked at again, for a fork may slip in between."""
    for _ in range(_PAUSE_ROUNDS):
        awake = [pid for pid, state in _below(root) if state != "T"]
        if not awake:
            return
        for pid in awake:
            _send(pid, signal.SIGSTOP)
        time.sleep(0.001)  # a stop takes effect a moment after it was sent


def kill_all(root, reap):
    """Kill every descendant of `root`, again and again, for a fork may slip in between.

    An empty list is no proof: a child born after the list was made and orphaned before it was read is in
    neither. `reap` knows: it returns True when the kernel says that no child is left.
    """
    begun = time.monotonic()
    while True:
        childless = reap()
        living = descendants(root)
        if (childless and not living) or time.monotonic() - begun > _KILL_SECONDS:
            return
        spare = time.monotonic() - begun < _CLEANER_SECONDS
        for pid in living:
            if not (spare and _cleans(pid)):
                _send(pid, signal.SIGKILL)
        time.sleep(0.01)


def _send(pid, number):
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _cleans(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as stream:
            line = stream.read().decode(errors="replace")
    except OSError:
        return False
    return any(word in line for word in _CLEANERS)


def _processes():
    """(pid, parent, state) of everything that runs."""
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open("/proc/%s/stat" % name) as stream:
                        # The name in brackets may itself hold brackets and blanks.
                        state, parent = stream.read().rpartition(")")[2].split()[:2]
                except (OSError, ValueError):
                    continue
                yield int(name), int(parent), state
        return
    import subprocess

    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,state="], capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        pid, parent, state = line.split()[:3]
        yield int(pid), int(parent), state[0]
