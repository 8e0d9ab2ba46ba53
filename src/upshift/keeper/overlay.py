"""Overlays over the user's folders, in a mount namespace of our own: the run writes, the originals stay."""

import os

import linux

# Kinds of file system that hold a person's files; anything else below a covered folder is bound through.
_DISKS = (
    "ext2 ext3 ext4 xfs btrfs zfs f2fs jfs reiserfs bcachefs overlay nfs nfs4 cifs smb3 9p virtiofs "
    "lustre gpfs beegfs ceph glusterfs vfat exfat ntfs ntfs3 fuseblk hfsplus apfs tmpfs ramfs"
).split()


def lay(plan):
    """Cover `plan["roots"]`, keep `plan["through"]` as they are. Returns the folders covered.

    Every folder is opened before anything is mounted: once a parent is covered, paths below it lead to the
    overlay, and only the descriptor still leads to the original. Raises OSError if a folder in
    `plan["required"]` cannot be covered.
    """
    roots = list(dict.fromkeys(plan["roots"]))
    mounts = _mounts_below(roots)
    folders = sorted(set(roots) | {path for path, kind in mounts if kind in _DISKS})
    through = sorted(set(plan["through"]) | {path for path, kind in mounts if kind not in _DISKS})
    kind = linux.private_mounts()  # first: the kernel clones no mount of another namespace
    descriptors = {path: _descriptor(path) for path in folders + through}
    covered = []
    for number, path in enumerate(folders):
        if descriptors[path] is None:
            continue
        try:
            _cover(path, descriptors[path], os.path.join(plan["scratch"], str(number)), kind)
            covered.append(path)
        except OSError as error:
            if path in plan["required"]:
                raise
            plan.setdefault("uncovered", []).append("%s: %s" % (path, error))
    for path in through:
        if descriptors[path] is not None and any(_below(path, root) for root in covered):
            try:
                source = "/proc/self/fd/%d" % descriptors[path]
                linux.mount(source, path, None, linux.MS_BIND | linux.MS_REC, None)
            except OSError as error:
                plan.setdefault("uncovered", []).append("%s: %s" % (path, error))
    for descriptor in descriptors.values():
        if descriptor is not None:
            os.close(descriptor)
    _plant(plan.get("files", {}), covered)
    for path, text in plan.get("edited", {}).items():
        _edit(path, text, covered)
    return covered


def _cover(path, descriptor, scratch, kind):
    upper, work = os.path.join(scratch, "upper"), os.path.join(scratch, "work")
    os.makedirs(upper)
    os.makedirs(work)
    status = os.fstat(descriptor)
    os.chmod(upper, status.st_mode & 0o7777)
    options = "lowerdir=/proc/self/fd/%d,upperdir=%s,workdir=%s" % (descriptor, upper, work)
    if kind == "user":
        options += ",userxattr"
    linux.mount("overlay", path, "overlay", 0, options)


def unlock(scratch):
    """Give ourselves rights to the work folders the kernel made without any, so that they can be deleted."""
    for folder, names, _ in os.walk(scratch):
        for name in names:
            try:
                os.chmod(os.path.join(folder, name), 0o700)
            except OSError:
                pass


def _plant(files, covered):
    """Files that exist for this run only: written through the overlay, so into scratch."""
    for path, text in files.items():
        if any(_below(path, root) for root in covered):
            try:
                with open(path, "w") as stream:
                    stream.write(text)
            except OSError:
                pass


def _edit(path, text, covered):
    """Give a file of the user's another content for this run; never outside the overlay."""
    if not any(_below(path, root) for root in covered):
        raise OSError("%s is outside the overlay" % path)
    with open(path, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)


def _below(path, root):
    return path == root or path.startswith(root.rstrip("/") + "/")


def _descriptor(path):
    try:
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def _mounts_below(roots):
    """(mount point, kind) of every mount under one of the roots."""
    found = []
    try:
        with open("/proc/self/mountinfo") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return found
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        if point not in roots and any(_below(point, root) for root in roots):
            found.append((point, after.split()[0]))
    return found
