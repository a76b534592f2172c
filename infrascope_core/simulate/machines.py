"""The two kinds of host, as data: sizes, names and physical constants, from `machines.yaml`."""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict

from infrascope_core.run_files.tables import Platform


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Machine(_Frozen):
    """A host: how many of what, and what a core or a disk can do. Units are in the names."""

    host: str
    first_host: int
    cores: int
    visible: tuple[int, ...]
    """Cores of the job's share; turbostat shows the others as zero."""
    packages: tuple[str, ...]
    interfaces: tuple[str, ...]
    fabric: str
    fabric_gbit: float
    management_gbit: float
    gpus: int
    memory_kb: int
    swap_kb: int
    tsc_mhz: int
    busy_mhz: float
    tick_hz: float
    idle_watt: float
    core_watt: float
    disk_mb_s: float

    def instances(self, of: str) -> list[str]:
        """Names of the instances of `cores`, `packages`, `gpus` or `interfaces`, in the file's order."""
        return {
            "cores": [*map(str, range(self.cores)), "-"],
            "packages": list(self.packages),
            "gpus": [*map(str, range(self.gpus))],
            "interfaces": list(self.interfaces),
        }[of]

    def host_name(self, index: int) -> str:
        """Name of the job's host of that index, counted from 0."""
        return self.host.format(self.first_host + index)


class Gpu(_Frozen):
    """A GPU's power, heat and clocks."""

    idle_watt: float
    context_watt: float
    full_watt: float
    sensor_lag_s: float
    ambient_c: float
    kelvin_per_watt: float
    thermal_lag_s: float
    slowdown_c: float
    boost_mhz: float
    idle_mhz: float
    memory_mib: int
    memory_mhz: int


@cache
def _data() -> dict[str, dict[str, object]]:
    text = (resources.files(__package__) / "machines.yaml").read_text(encoding="utf-8")
    data: dict[str, dict[str, object]] = yaml.safe_load(text)
    return data


@cache
def machine(platform: Platform) -> Machine:
    """The host of a platform."""
    return Machine.model_validate(_data()[platform])


@cache
def gpu() -> Gpu:
    """The GPU of the GPU platform."""
    return Gpu.model_validate(_data()["coupling_gpu"])
