"""The allocator keeps freed memory where the C library is glibc, and is left alone elsewhere."""

import ctypes
import platform
import subprocess
import sys

import pytest

from dqn_lab.allocator import keep_freed_memory

# Counts the mapped regions that one allocation adds: those that glibc gives back as soon as they are freed.
_MAPPED_REGIONS = """
import ctypes
from dqn_lab.allocator import keep_freed_memory

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in "arena ordblks smblks hblks hblkhd u f o d keepcost".split()]

libc = ctypes.CDLL(None)
libc.mallinfo.restype = Info
libc.malloc.restype = ctypes.c_void_p

def added(size):
    before = libc.mallinfo().hblks
    address = libc.malloc(ctypes.c_size_t(size))
    regions = libc.mallinfo().hblks - before
    libc.free(ctypes.c_void_p(address))
    return regions

mebibyte = 2**20
print(added(16 * mebibyte), keep_freed_memory(), added(16 * mebibyte), added(64 * mebibyte))
"""


class Library:
    """A C library whose `mallopt` answers as it is told to."""

    def __init__(self, *answers):
        self.answers, self.calls = list(answers), []

    def mallopt(self, parameter, value):
        self.calls.append((parameter, value))
        return self.answers.pop(0)


def _on_linux_with(monkeypatch, library):
    def load(name):
        if isinstance(library, Exception):
            raise library
        return library

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", load)


def test_it_says_whether_the_settings_were_taken_and_may_be_called_again():
    is_glibc = sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"
    assert [keep_freed_memory() for _ in range(3)] == [is_glibc] * 3


@pytest.mark.posix
def test_arrays_of_a_minibatchs_size_no_longer_have_a_mapping_of_their_own():
    if platform.libc_ver()[0] != "glibc":
        assert not keep_freed_memory()
        return
    ran = subprocess.run([sys.executable, "-c", _MAPPED_REGIONS], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "True", "0", "1"]  # before; taken; after; larger than what is kept


@pytest.mark.parametrize("system", ["darwin", "win32", "freebsd14"])
def test_on_another_system_the_c_library_is_not_even_looked_for(system, monkeypatch):
    _on_linux_with(monkeypatch, RuntimeError("looked for"))
    monkeypatch.setattr(sys, "platform", system)
    assert keep_freed_memory() is False


@pytest.mark.parametrize("library", [OSError("none"), object()], ids=["cannot be opened", "has no mallopt"])
def test_another_c_library_on_linux_is_left_alone(library, monkeypatch):
    _on_linux_with(monkeypatch, library)
    assert keep_freed_memory() is False


@pytest.mark.parametrize(("answers", "taken"), [((1, 1), True), ((0,), False), ((1, 0), False)])
def test_a_setting_that_is_refused_is_told(answers, taken, monkeypatch):
    library = Library(*answers)
    _on_linux_with(monkeypatch, library)
    assert keep_freed_memory() is taken
    assert library.calls == [(-3, 32 * 2**20), (-1, 256 * 2**20)][: len(answers)]
