"""Memory, CPU, page faults and GPU load of the training processes, read from outside once a second."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from upshift import config

INTERVAL_SECONDS = 1.0


_OTHER_CORES = 0.4
_FULL = 0.85
"""Of all cores: nothing is left."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What the training processes used."""

    peak_bytes: int | None
    """Largest resident set of one training process, bytes."""
    tree_peak_bytes: int | None
    """Largest sum of resident sets over the whole process tree, bytes; shared pages count more than once."""
    cpu_cores: float | None
    """Cores kept busy by the tree, on average, since the first step."""
    cores: int
    swap_bytes: int | None
    """Largest swap of one training process, bytes."""
    major_faults: int | None
    """Major page faults since the first step."""
    other_cores: float | None
    """Cores kept busy by processes that are not the run's, on average."""
    other_processes: tuple[str, ...]
    """The busiest of them: name and pid."""
    memory_bytes: int | None
    """What the run may use: the machine's memory, or a limit of its process or container below that."""
    stalled_share: float | None
    """Share of the time that something on the machine waited for memory (pages to come back), from the kernel."""
    gpu: tuple[dict[str, float | str | None], ...]
    """Per visible GPU: name, utilisation in percent, memory in bytes. Empty where there is none."""

    @property
    def crowded(self) -> bool:
        """Do other programs keep cores busy, and are none left?"""
        if self.other_cores is None or self.cpu_cores is None or not self.other_processes:
            return False
        return self.other_cores >= _OTHER_CORES and self.other_cores + self.cpu_cores >= _FULL * self.cores


@dataclass
class ResourceWatch:
    """Collects samples; `summary` makes the record."""

    root_pid: int
    _peak: int = 0
    _tree_peak: int = 0
    _swap: int = 0
    _faults_first: dict[int, int] = field(default_factory=dict)
    _faults_last: dict[int, int] = field(default_factory=dict)
    _cpu: list[tuple[float, float]] = field(default_factory=list)
    _machine: list[tuple[float, float]] = field(default_factory=list)
    _others: dict[int, tuple[str, float, float]] = field(default_factory=dict)
    _stall: list[tuple[float, float]] = field(default_factory=list)
    _limit: int | None = None
    _gpu: list[list[dict[str, float | str | None]]] = field(default_factory=list)

    def sample(self, training: list[int], now: float) -> None:
        """One look at the tree; processes that vanish meanwhile are skipped."""
        try:
            tree = psutil.Process(self.root_pid).children(recursive=True)
        except psutil.Error:
            return
        total_rss, total_cpu = 0, 0.0
        for process in tree:
            with contextlib.suppress(psutil.Error, OSError), process.oneshot():
                total_rss += process.memory_info().rss
                times = process.cpu_times()
                total_cpu += times.user + times.system
        self._tree_peak = max(self._tree_peak, total_rss)
        if not training:
            return
        self._cpu.append((now, total_cpu))
        self._look_at_others({p.pid for p in tree} | {self.root_pid, psutil.Process().pid}, now)
        for pid in training:
            with contextlib.suppress(psutil.Error, OSError):
                self._look_at(pid)
        sample = _gpu_sample({p.pid for p in tree})
        if sample:
            self._gpu.append(sample)

    def _look_at_others(self, ours: set[int], now: float) -> None:
        """Who else is computing, and is the machine short of memory?"""
        busy = psutil.cpu_times()
        self._machine.append((now, sum(busy) - busy.idle - getattr(busy, "iowait", 0.0)))
        for process in psutil.process_iter(["pid", "name", "cpu_times"]):
            times = process.info["cpu_times"]
            if process.pid in ours or times is None:
                self._others.pop(process.pid, None)
                continue
            spent = times.user + times.system
            name, first, _ = self._others.get(process.pid, (process.info["name"], spent, spent))
            self._others[process.pid] = (name, first, spent)
        with contextlib.suppress(OSError, ValueError, IndexError):
            total = Path("/proc/pressure/memory").read_text().split("total=")[1].split()[0]
            self._stall.append((now, int(total) / 1e6))

    def _look_at(self, pid: int) -> None:
        if self._limit is None:
            self._limit = _memory_limit(pid)
        status = Path(f"/proc/{pid}/status")
        if not status.exists():
            self._peak = max(self._peak, psutil.Process(pid).memory_info().rss)
            return
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        self._peak = max(self._peak, _kib(fields.get("VmHWM")))
        self._swap = max(self._swap, _kib(fields.get("VmSwap")))
        faults = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[9])
        self._faults_first.setdefault(pid, faults)
        self._faults_last[pid] = faults

    def summary(self) -> Resources:
        """The record of everything sampled."""
        cores = None
        if len(self._cpu) >= 2 and self._cpu[-1][0] > self._cpu[0][0]:
            (t0, c0), (t1, c1) = self._cpu[0], self._cpu[-1]
            cores = max(0.0, (c1 - c0) / (t1 - t0))
        others = sorted(self._others.items(), key=lambda item: item[1][1] - item[1][2])
        span = self._cpu[-1][0] - self._cpu[0][0] if len(self._cpu) >= 2 else 0.0
        faults = None
        if self._faults_last:
            faults = sum(self._faults_last[p] - self._faults_first[p] for p in self._faults_last)
        return Resources(
            peak_bytes=self._peak or None,
            tree_peak_bytes=self._tree_peak or None,
            cpu_cores=cores,
            cores=config.cores(),
            swap_bytes=self._swap if self._peak else None,
            major_faults=faults,
            other_cores=_rate([(t, c) for t, c in self._machine], minus=cores),
            other_processes=tuple(
                f"{name} (pid {pid})" for pid, (name, first, last) in others[:4] if last - first > 0.2 * span
            )
            if span
            else (),
            memory_bytes=self._limit,
            stalled_share=_rate(self._stall),
            gpu=tuple(_mean_gpu(self._gpu)),
        )


def _rate(samples: list[tuple[float, float]], minus: float | None = 0.0) -> float | None:
    """Growth per second from the first to the last sample, less `minus`."""
    if len(samples) < 2 or minus is None or samples[-1][0] <= samples[0][0]:
        return None
    (t0, first), (t1, last) = samples[0], samples[-1]
    return max(0.0, (last - first) / (t1 - t0) - minus)


def _memory_limit(pid: int) -> int:
    """Bytes a process may use: the machine's, its container's or its own limit, whichever is least."""
    limits = [psutil.virtual_memory().total]
    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        for kind in (psutil.RLIMIT_DATA, psutil.RLIMIT_AS):
            soft = psutil.Process(pid).rlimit(kind)[0]
            if soft > 0:
                limits.append(soft)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(path).read_text()))
    return min(limits)


def _kib(text: str | None) -> int:
    return int(text.split()[0]) * 1024 if text else 0


def _gpu_sample(ours: set[int]) -> list[dict[str, float | str | None]]:
    """Utilisation, memory and strangers of every GPU, if NVML is installed and finds a driver."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        readings: list[dict[str, float | str | None]] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            readings.append(
                {
                    "name": str(pynvml.nvmlDeviceGetName(handle)),
                    "utilisation_percent": float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                    "memory_bytes": float(memory.used),
                    "total_bytes": float(memory.total),
                    "other_processes": ", ".join(f"pid {p.pid}" for p in running if p.pid not in ours),
                }
            )
        return readings
    except pynvml.NVMLError:
        return []


def _mean_gpu(
    samples: list[list[dict[str, float | str | None]]],
) -> list[dict[str, float | str | None]]:
    means: list[dict[str, float | str | None]] = []
    for readings in zip(*samples, strict=False):
        use = [float(r["utilisation_percent"] or 0) for r in readings]
        memory = [float(r["memory_bytes"] or 0) for r in readings]
        means.append(
            {
                "name": readings[0]["name"],
                "utilisation_percent": sum(use) / len(use),
                "peak_memory_bytes": max(memory),
                "total_bytes": readings[0].get("total_bytes"),
                "other_processes": readings[-1].get("other_processes"),
            }
        )
    return means
