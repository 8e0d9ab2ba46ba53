"""Memory, CPU, page faults and GPU load of the training processes, read from outside once a second."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import psutil

INTERVAL_SECONDS = 1.0


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
    gpu: tuple[dict[str, float | str | None], ...]
    """Per visible GPU: name, utilisation in percent, memory in bytes. Empty where there is none."""


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
        for pid in training:
            with contextlib.suppress(psutil.Error, OSError):
                self._look_at(pid)
        sample = _gpu_sample()
        if sample:
            self._gpu.append(sample)

    def _look_at(self, pid: int) -> None:
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
        faults = None
        if self._faults_last:
            faults = sum(self._faults_last[p] - self._faults_first[p] for p in self._faults_last)
        return Resources(
            peak_bytes=self._peak or None,
            tree_peak_bytes=self._tree_peak or None,
            cpu_cores=cores,
            cores=len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0,
            swap_bytes=self._swap if self._peak else None,
            major_faults=faults,
            gpu=tuple(_mean_gpu(self._gpu)),
        )


def _kib(text: str | None) -> int:
    return int(text.split()[0]) * 1024 if text else 0


def _gpu_sample() -> list[dict[str, float | str | None]]:
    """Utilisation and memory of every GPU, if NVML is installed and finds a driver."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        readings: list[dict[str, float | str | None]] = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            readings.append(
                {
                    "name": str(pynvml.nvmlDeviceGetName(handle)),
                    "utilisation_percent": float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                    "memory_bytes": float(pynvml.nvmlDeviceGetMemoryInfo(handle).used),
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
            }
        )
    return means
