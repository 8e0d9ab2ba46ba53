"""What a killed process would have deleted itself: shared memory of torch, socket folders of multiprocessing."""

import os

_SHARED_MEMORY = "/dev/shm"
_FOLDER = "pymp-"


def owned_by(pids):
    """Paths that are to go when these processes, which still live, have been killed."""
    return [*_socket_folders(pids), *_shared_memory(pids)]


def remove(paths):
    """Delete them; a folder only with the sockets that are in it."""
    for path in paths:
        try:
            if not os.path.isdir(path):
                os.unlink(path)
                continue
            for name in os.listdir(path):
                os.unlink(os.path.join(path, name))
            os.rmdir(path)
        except OSError:
            pass


def _shared_memory(pids):
    """Segments are named after the process that made them."""
    owners = {str(pid) for pid in pids}
    try:
        names = os.listdir(_SHARED_MEMORY)
    except OSError:
        return []
    parts = ((name, name.split("_")) for name in names)
    return [
        os.path.join(_SHARED_MEMORY, name)
        for name, part in parts
        if part[0] == "torch" and len(part) > 2 and part[1] in owners
    ]


def _socket_folders(pids):
    """Folders whose sockets these processes hold open."""
    open_sockets = {inode for pid in pids for inode in _sockets(pid)}
    try:
        with open("/proc/net/unix") as stream:
            fields = [line.split() for line in stream]
    except OSError:
        return []
    # Num RefCount Protocol Flags Type St Inode Path
    folders = {os.path.dirname(f[7]) for f in fields if len(f) == 8 and f[6] in open_sockets}
    return sorted(folder for folder in folders if os.path.basename(folder).startswith(_FOLDER))


def _sockets(pid):
    folder = "/proc/%d/fd" % pid
    try:
        links = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
    except OSError:
        return []
    return [link[len("socket:[") : -1] for link in links if link.startswith("socket:[")]
