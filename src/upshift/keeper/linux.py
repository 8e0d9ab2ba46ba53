"""The few Linux calls that Python has no name for. Elsewhere they do nothing, or say that they cannot."""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def adopt_orphans():
    """Descendants whose parent dies become our children instead of init's."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(number):
    """Send this process signal `number` when its parent dies."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def private_mounts():
    """A mount namespace of our own, through a user namespace if we are not root. Returns "root" or "user"."""
    if _libc is None:
        raise OSError("private mounts exist on Linux only")
    uid, gid = os.getuid(), os.getgid()
    if uid == 0 and _libc.unshare(CLONE_NEWNS) == 0:
        kind = "root"
    else:
        _checked(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", "%d %d 1" % (uid, uid)),
            ("gid_map", "%d %d 1" % (gid, gid)),
        ):
            with open("/proc/self/" + name, "w") as stream:
                stream.write(text)
        kind = "user"
    mount(None, "/", None, MS_REC | MS_PRIVATE, None)
    return kind


def mount(source, target, kind, flags, options):
    """Mount as the system call does; an OSError when it fails."""
    encoded = [None if v is None else os.fsencode(v) for v in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    _checked(
        _libc.mount(*encoded, ctypes.c_ulong(flags), data),
        "mount %s on %s" % (kind or "bind", target),
    )


def _checked(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
