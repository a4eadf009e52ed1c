"""Devices: memory growth, hiding, and one line about a GPU that lies idle. No GPU is needed."""

import subprocess
import sys
import types

import pytest
import tensorflow as tf

from dqn_lab import devices
from dqn_lab.devices import DeviceChoice, select_device, usable_cores


class _Machine:
    """Stands in for TensorFlow's settings and nvidia-smi, and notes what is asked of them."""

    def __init__(self, monkeypatch, gpus=(), hidden=False, smi=None, error=None):
        self.calls, self.smi, self.error = [], smi, error
        self.gpus = [types.SimpleNamespace(name=name) for name in gpus]
        config, experimental = tf.config, tf.config.experimental
        visible = [] if hidden else self.gpus
        monkeypatch.setattr(config, "list_physical_devices", lambda kind: self.gpus)
        monkeypatch.setattr(config, "get_visible_devices", lambda kind: visible)
        monkeypatch.setattr(config, "set_visible_devices", self._note("visible"))
        monkeypatch.setattr(experimental, "set_memory_growth", self._note("growth"))
        monkeypatch.setattr(experimental, "get_device_details", lambda gpu: {"device_name": f"card {gpu.name}"})
        monkeypatch.setattr(subprocess, "run", self._nvidia_smi)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def _note(self, name):
        def call(*given):
            self.calls.append((name, *given))
            if self.error is not None:
                raise self.error

        return call

    def _nvidia_smi(self, command, **settings):
        assert command[0] == "nvidia-smi"
        if isinstance(self.smi, Exception):
            raise self.smi
        return types.SimpleNamespace(stdout=self.smi)


@pytest.mark.case("B092")
@pytest.mark.parametrize("device", ["auto", "gpu"])
def test_memory_growth_is_set_for_every_gpu(monkeypatch, device):
    machine = _Machine(monkeypatch, gpus=("one", "two"))
    assert select_device(device) == DeviceChoice("gpu", "card one, card two")
    assert machine.calls == [("growth", gpu, True) for gpu in machine.gpus]


@pytest.mark.case("B092")
def test_growth_that_comes_too_late_is_one_warning(monkeypatch):
    error = RuntimeError("cannot be modified after being initialized")
    machine = _Machine(monkeypatch, gpus=("one", "two"), error=error)
    with pytest.warns(RuntimeWarning, match="growth stays .* in use already: cannot") as caught:
        choice = select_device("auto")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert choice.name == "gpu"
    assert len(machine.calls) == 2


def test_cpu_hides_the_gpus(monkeypatch):
    machine = _Machine(monkeypatch, gpus=("one",))
    assert select_device("cpu") == DeviceChoice("cpu", "as asked")
    assert machine.calls == [("visible", [], "GPU")]


def test_hiding_that_comes_too_late_is_one_warning(monkeypatch):
    _Machine(monkeypatch, gpus=("one",), error=RuntimeError("initialized"))
    with pytest.warns(RuntimeWarning, match="GPUs stay visible, because TensorFlow is in use") as w:
        assert select_device("cpu").name == "cpu"
    assert [warning.filename for warning in w] == [__file__]


@pytest.mark.parametrize("smi", [FileNotFoundError(), subprocess.TimeoutExpired("nvidia-smi", 20), ""])
def test_without_any_gpu_auto_takes_the_cpu(monkeypatch, smi):
    _Machine(monkeypatch, smi=smi)
    assert str(select_device("auto")) == "cpu (no GPU found)"


IDLE = [
    ("linux", False, "plain tensorflow wheel has no CUDA libraries, run pip install 'dqn_lab[gpu]'"),
    ("linux", True, "could not open it with the CUDA libraries installed, update the NVIDIA driver"),
    ("win32", False, "TensorFlow has no GPU support on Windows, run inside WSL2"),
]


@pytest.mark.parametrize(("platform", "libraries", "advice"), IDLE)
def test_a_gpu_that_lies_idle_is_one_line_with_reason_and_fix(monkeypatch, platform, libraries, advice):
    _Machine(monkeypatch, smi="NVIDIA H200\nNVIDIA H200\n")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: libraries or None)
    choice = select_device("auto")
    assert choice.name == "cpu"
    assert choice.reason.startswith("NVIDIA H200 is unusable: ")
    assert advice in choice.reason
    assert "\n" not in choice.reason
    with pytest.raises(ValueError, match="may be gpu only where.*Received: device='gpu'") as error:
        select_device("gpu")
    assert choice.reason in str(error.value)


@pytest.mark.parametrize("value", ["", "-1"])
def test_a_gpu_hidden_by_the_environment_is_said(monkeypatch, value):
    _Machine(monkeypatch, smi="NVIDIA H200\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert "hidden: unset CUDA_VISIBLE_DEVICES" in select_device("auto").reason


def test_gpus_that_the_program_has_hidden_stay_hidden(monkeypatch):
    machine = _Machine(monkeypatch, gpus=("one",), hidden=True, smi="NVIDIA H200\n")
    choice = select_device("auto")
    assert choice == DeviceChoice("cpu", "the program has hidden its GPUs from TensorFlow")
    assert machine.calls == []


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="one of auto, cpu, gpu.* Received: device='tpu'"):
        select_device("tpu")


def test_usable_cores_are_those_of_this_process(monkeypatch):
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda pid: {0, 5, 7}, raising=False)
    assert usable_cores() == 3


@pytest.mark.parametrize(("count", "cores"), [(6, 6), (None, 1)])
def test_usable_cores_are_all_where_the_system_has_no_affinity(monkeypatch, count, cores):
    monkeypatch.delattr(devices.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(devices.os, "cpu_count", lambda: count)
    assert usable_cores() == cores


class _Threads:
    """Stands in for TensorFlow's thread settings."""

    def __init__(self, monkeypatch, cores, *, given=0, in_use=False):
        self.set, self.in_use = {}, in_use
        for kind in ("intra", "inter"):
            monkeypatch.setattr(tf.config.threading, f"get_{kind}_op_parallelism_threads", lambda: given)
            monkeypatch.setattr(tf.config.threading, f"set_{kind}_op_parallelism_threads", self._setter(kind))
        monkeypatch.setattr(devices, "usable_cores", lambda: cores)

    def _setter(self, kind):
        def setter(count):
            if self.in_use:
                raise RuntimeError("cannot be modified after initialization")
            self.set[kind] = count

        return setter


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_on_two_cores_operations_run_side_by_side(monkeypatch, device):
    _Machine(monkeypatch, smi=FileNotFoundError())
    threads = _Threads(monkeypatch, cores=2)
    select_device(device)
    assert threads.set == {"intra": 1, "inter": 2}


@pytest.mark.parametrize(
    ("cores", "settings", "gpus"),
    [(1, {}, ()), (4, {}, ()), (2, {"given": 2}, ()), (2, {"in_use": True}, ()), (2, {}, ("one",))],
    ids=["one core", "four cores", "the program's own", "TensorFlow in use", "a GPU"],
)
def test_otherwise_threads_stay_as_they_are(monkeypatch, cores, settings, gpus):
    _Machine(monkeypatch, gpus=gpus, smi=FileNotFoundError())
    threads = _Threads(monkeypatch, cores, **settings)
    select_device("auto")
    assert threads.set == {}
