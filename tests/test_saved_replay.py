"""A replay's files: they make the ring that was saved, cost what is new, and nothing broken is read."""

import copy
import errno
import functools
import hashlib
import os
import pickle
import signal
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scripted_ring
from hypothesis import given
from hypothesis import strategies as st
from scripted_ring import frame_ring, make_ring, snapshot, store  # noqa: F401
from twin_rings import advance, check_same

from dqn_lab.replay.compression import CompressedFrames
from dqn_lab.replay.raw_frames import RawFrames
from dqn_lab.replay.ring import FrameRing
from dqn_lab.saved_replay import SavedReplay

pytestmark = pytest.mark.usefixtures("store")


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def play_on(ring, moves, seed=0):
    """Lets so many things happen in each lane; about half of them are observations."""
    generator = np.random.default_rng([seed, *ring.written])
    for _ in range(moves):
        advance((ring,), np.arange(ring.num_envs), generator)


def read_again(directory, entries, like, **settings):
    """Reads files into a new ring; returns it and what saved it."""
    ring = frame_ring(like.capacity, like.num_envs, like.frames.shape, like.frames.dtype)
    saved = SavedReplay(directory, ring, **settings)
    saved.read(entries)
    return ring, saved


# Against a ring that is kept beside the files.


class History:
    """A ring that is saved and resumed, and for every save a plain twin as it was then."""

    def __init__(self, directory, num_envs, slots, settings, seed):
        self.directory, self.settings = directory, settings
        self.ring = make_ring(slots * num_envs, num_envs)
        self.twin = FrameRing(slots * num_envs, num_envs, (), np.int64)
        self.saved = SavedReplay(directory, self.ring, **settings)
        self.saves = []  # entries and the twin of then
        self.generator = np.random.default_rng(seed)

    def happen(self, what, number, lanes):
        if what == "moves":
            for _ in range(number):
                advance((self.ring, self.twin), lanes, self.generator)
        elif what == "abandon":
            for each in (self.ring, self.twin):
                each.abandon_episodes(lanes)
        elif what == "save":
            self.saves.append((self.saved.write(), copy.deepcopy(self.twin)))
        elif what == "prune":
            self.saves = self.saves[-number or None :]
            self.saved.prune(entries for entries, _ in self.saves)
            needed = {entry["file"] for entries, _ in self.saves for entry in entries}
            assert not self.directory.exists() or set(names(self.directory)) == needed
        elif self.saves:
            entries, twin = self.saves[-1 - number % len(self.saves)]
            self.twin = copy.deepcopy(twin)
            self.ring, self.saved = read_again(self.directory, entries, self.ring, **self.settings)
            check_same(self.ring, self.twin)


@st.composite
def histories(draw):
    num_envs = draw(st.integers(1, 3))
    what = st.sampled_from(["moves", "moves", "moves", "abandon", "save", "save", "resume", "prune"])
    lanes = st.lists(st.integers(0, num_envs - 1), unique=True, min_size=1).map(np.array)
    events = st.lists(st.tuples(what, st.integers(0, 12), lanes), min_size=10, max_size=40)
    settings = {
        "file_bytes": draw(st.sampled_from([60, 200, 10**6])),
        "small_bytes": draw(st.sampled_from([0, 100, 300, 10**6])),
    }
    return num_envs, draw(st.integers(2, 14)), settings, draw(events)


@given(histories(), st.integers(0, 2**32))
def test_what_is_read_is_the_ring_that_was_saved(tmp_path_factory, history, seed):
    num_envs, slots, settings, events = history
    history = History(tmp_path_factory.mktemp("replay") / "files", num_envs, slots, settings, seed)
    everything = np.arange(num_envs)
    for event in (*events, ("save", 0, everything), ("resume", 0, everything)):
        history.happen(*event)
    for _ in range(40):  # what is appended later
        history.happen("moves", 1, everything)
        check_same(history.ring, history.twin)


# Files.


def three_files(directory, **settings):
    """Returns a ring that was saved three times, and the entries."""
    ring = make_ring(60, 2)
    saved = SavedReplay(directory, ring, **{"small_bytes": 0} | settings)
    for _ in range(3):
        play_on(ring, 16)
        entries = saved.write()
    return ring, saved, entries


def test_an_entry_tells_of_its_file(tmp_path):
    ring, _, entries = three_files(tmp_path)
    assert [entry["file"] for entry in entries] == names(tmp_path) == ["000001.npz", "000002.npz", "000003.npz"]
    for entry in entries:
        content = (tmp_path / entry["file"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert [entry["since"] for entry in entries] == [[0, 0], *(entry["written"] for entry in entries[:-1])]
    assert entries[-1]["written"] == ring.written.tolist()


def test_what_a_write_returns_is_the_callers(tmp_path):
    ring, saved, entries = three_files(tmp_path)
    kept = copy.deepcopy(entries)
    for entry in entries:
        entry["written"][0] = entry["file"] = None
    assert saved.write()[:3] == kept


def test_an_empty_ring_is_saved_and_read(tmp_path):
    ring = make_ring(12, 2)
    entries = SavedReplay(tmp_path, ring).write()
    full, saved, _ = three_files(tmp_path / "other")
    SavedReplay(tmp_path, full).read([])
    assert not full.written.any()
    assert read_again(tmp_path, entries, ring)[0].written.tolist() == [0, 0]


def test_all_is_flushed_before_a_write_returns(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.fstat(handle)))
    _, _, entries = three_files(tmp_path, file_bytes=10**6)
    assert [each.st_size for each in flushed if stat.S_ISREG(each.st_mode)] == [entry["bytes"] for entry in entries]
    if os.name != "nt":
        assert [stat.S_ISDIR(each.st_mode) for each in flushed] == [False, True] * 3


def test_a_small_last_file_is_replaced_and_stays_until_it_is_pruned(tmp_path):
    ring = make_ring(200)
    saved, sizes = SavedReplay(tmp_path, ring, small_bytes=1_000), []
    for _ in range(6):
        play_on(ring, 36)  # 18 rows of about 26 bytes, raw
        entries = saved.write()
        sizes.append(len(entries))
        check_same(read_again(tmp_path, entries, ring)[0], ring)
    assert (sizes[0], len(names(tmp_path))) == (1, 6)
    assert sizes[-1] < 6
    saved.prune([entries])
    assert names(tmp_path) == [entry["file"] for entry in entries]


def test_many_small_saves_make_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    ring = make_ring(2_000, 2)
    saved = SavedReplay(tmp_path, ring, small_bytes=10_000)
    play_on(ring, 2_500)
    for _ in range(60):
        play_on(ring, 100)
        saved.prune([saved.write()])
        assert len(names(tmp_path)) < ring.capacity * ring.bytes_per_row / 10_000 + 4


def test_prune_leaves_what_another_list_needs_and_other_names(tmp_path):
    ring, saved, entries = three_files(tmp_path)
    (tmp_path / "000007.npz").write_bytes(b"broken off")
    (tmp_path / "notes.npz").write_bytes(b"mine")
    saved.prune([entries[:1], entries[2:]])
    assert names(tmp_path) == ["000001.npz", "000003.npz", "notes.npz"]
    SavedReplay(tmp_path / "nowhere", ring).prune([])


@pytest.mark.parametrize("how", ["pruned", "missing", "truncated"])
def test_a_write_goes_on_only_from_files_that_are_there(tmp_path, how):
    ring, saved, entries = three_files(tmp_path)
    if how == "pruned":
        saved.prune([entries[:1]])
    elif how == "missing":
        (tmp_path / entries[1]["file"]).unlink()
    else:
        os.truncate(tmp_path / entries[1]["file"], 100)
    after = saved.write()
    assert (after[0], after[1]["since"], after[1]["file"]) == (entries[0], entries[1]["since"], "000004.npz")
    check_same(read_again(tmp_path, after, ring)[0], ring)


# Cost.


def add_steps(ring, count):
    generator, no = np.random.default_rng(count), np.zeros(100, bool)
    for _ in range(count):
        if ring.written[0]:
            ring.record(np.ones(100), np.zeros(100), no, no)
        ring.append(generator.integers(256, size=(100, 4)))


def test_a_second_save_writes_what_is_new(tmp_path):
    ring = frame_ring(100_000, 100, (4,), np.uint8)
    add_steps(ring, 1_100)  # has wrapped
    saved = SavedReplay(tmp_path, ring, file_bytes=10**6, small_bytes=10**5)
    before = saved.write()
    add_steps(ring, 1)
    new = [entry for entry in saved.write() if entry not in before]
    assert sum(entry["bytes"] for entry in before) > 100_000 * 20
    assert sum(entry["bytes"] for entry in new) < 25_000  # three rows of each lane, or a block of them


@pytest.mark.parametrize("frames", [RawFrames, functools.partial(CompressedFrames, chunk_bytes=2**16)])
def test_no_more_is_copied_at_a_time_than_a_file_holds(tmp_path, frames):
    ring, generator = FrameRing(6_000, 2, (900,), np.uint8, frames), np.random.default_rng(0)
    for _ in range(3_500):
        if ring.written[0]:
            ring.record([0, 1], [0.0, 0.0], [False, False], [False, False])
        ring.append(generator.integers(256, size=(2, 900)))
    saved = SavedReplay(tmp_path, ring, file_bytes=500_000, small_bytes=0)
    tracemalloc.start()
    entries = saved.write()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(entry["bytes"] for entry in entries) > 5_000_000
    assert max(entry["bytes"] for entry in entries) < 600_000
    assert peak < 1_500_000  # what is copied once more to be written


# Interruptions.


@pytest.mark.parametrize("call", range(5))
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_is_broken_off_leaves_nothing(tmp_path, monkeypatch, call, error):
    ring, saved, before = three_files(tmp_path, file_bytes=300)
    play_on(ring, 80)
    there, calls = names(tmp_path), [0]

    def fail(handle):
        calls[0] += 1
        if calls[0] > call:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(type(error)):
            saved.write()
    assert calls[0] == call + 1
    assert names(tmp_path) == there
    read_again(tmp_path, before, ring)
    after = saved.write()
    assert len(after) > 4
    check_same(read_again(tmp_path, after, ring)[0], ring)


@pytest.mark.posix
@pytest.mark.parametrize("limit", [0, 1, 100, 400, 1_000, 2_000, 2_500])
def test_a_full_disk_leaves_what_was_there(tmp_path, limit):
    import resource

    ring, saved, before = three_files(tmp_path, file_bytes=10**6)
    play_on(ring, 80)
    there = names(tmp_path)
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
        with pytest.raises(OSError, match="File too large"):
            saved.write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert names(tmp_path) == there
    read_again(tmp_path, before, ring)
    check_same(read_again(tmp_path, saved.write(), ring)[0], ring)


def test_a_file_that_is_there_is_not_overwritten(tmp_path, monkeypatch):
    ring, saved, _ = three_files(tmp_path)
    (tmp_path / "000004.npz").write_bytes(b"another's")
    monkeypatch.setattr(saved, "_files", lambda: [])
    with pytest.raises(FileExistsError):
        saved.write()
    assert (tmp_path / "000004.npz").read_bytes() == b"another's"


def write_killed_at(directory, event):
    """Saves a ring again, in a child that is killed when so many calls were made; tells whether it was."""
    ring, saved, entries = three_files(directory, file_bytes=600)
    saved.prune([entries])
    play_on(ring, 80)
    child = os.fork()
    if not child:
        left = [event]

        def kill(frame, what, argument):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(kill)
        saved.write()
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    ring, again = read_again(directory, entries, ring)
    play_on(ring, 80)
    after = again.write()
    check_same(read_again(directory, after, ring)[0], ring)
    again.prune([after])
    if names(directory) != sorted(entry["file"] for entry in after):
        raise RuntimeError(f"left over: {names(directory)}")
    return killed


def kill_everywhere(directory, kind, step):
    """Kills writes after one, `step`, 2 x `step` ... calls until one is through; prints how many were killed."""
    scripted_ring._store = scripted_ring.STORES[kind]
    event = 1
    while write_killed_at(Path(directory) / str(event), event):
        event += step
    print(event // step)


@pytest.mark.posix
def test_after_a_kill_anywhere_in_a_write_the_one_before_is_read_and_written_on(tmp_path, store):  # noqa: F811
    command = f"import test_saved_replay as test; test.kill_everywhere({str(tmp_path)!r}, {store!r}, 331)"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5


# Refusals.


def check_refused(directory, entries, said, ring=None):
    ring = make_ring(60, 2) if ring is None else ring
    play_on(ring, 5)
    with pytest.raises(ValueError) as error:
        SavedReplay(directory, ring).read(entries)
    assert said in str(error.value) and "\n" not in str(error.value)
    new = frame_ring(ring.capacity, ring.num_envs, ring.frames.shape, ring.frames.dtype)
    assert snapshot(ring) == snapshot(new)


def received(directory, name, why):
    return (
        "A replay's file is the one that was written, and continues those before it. "
        f"Received: {directory / name}: {why}"
    )


def change(path, place):
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("place", [0, 40, 333, 1_000, -1])
@pytest.mark.parametrize("number", range(3))
def test_a_changed_byte_is_noticed_before_anything_is_read(tmp_path, monkeypatch, number, place):
    _, saved, entries = three_files(tmp_path)
    change(tmp_path / entries[number]["file"], place)
    monkeypatch.setattr(FrameRing, "apply_changes", None)
    check_refused(tmp_path, entries, received(tmp_path, entries[number]["file"], "its checksum differs"))
    with pytest.raises(ValueError, match="its checksum differs"):
        saved.verify(entries)


def test_whole_files_are_verified_and_read(tmp_path):
    ring, saved, entries = three_files(tmp_path)
    saved.verify(entries)
    check_same(read_again(tmp_path, entries, ring)[0], ring)


def test_a_file_that_changes_while_others_are_read_is_noticed(tmp_path, monkeypatch):
    ring, _, entries = three_files(tmp_path)
    apply_changes = FrameRing.apply_changes

    def meddle(ring, changes):
        apply_changes(ring, changes)
        os.truncate(tmp_path / entries[2]["file"], 500)

    monkeypatch.setattr(FrameRing, "apply_changes", meddle)
    check_refused(tmp_path, entries, received(tmp_path, entries[2]["file"], "its checksum differs"))


@pytest.mark.parametrize("length", [0, 1, 200, -1])
def test_a_truncated_file_is_noticed(tmp_path, length):
    _, _, entries = three_files(tmp_path)
    os.truncate(tmp_path / entries[1]["file"], length % (entries[1]["bytes"]))
    check_refused(tmp_path, entries, received(tmp_path, entries[1]["file"], "its checksum differs"))


def test_a_missing_file_is_named(tmp_path):
    _, _, entries = three_files(tmp_path)
    (tmp_path / entries[1]["file"]).unlink()
    check_refused(tmp_path, entries, received(tmp_path, entries[1]["file"], "No such file or directory"))


def test_files_that_do_not_continue_one_another_are_refused(tmp_path):
    ring, _, entries = three_files(tmp_path)
    order = "Changes are applied in the order in which they were made, with none left out."
    check_refused(tmp_path, [entries[0], entries[2]], received(tmp_path, entries[2]["file"], order))
    check_refused(tmp_path, entries[::-1], received(tmp_path, entries[1]["file"], order))
    check_refused(tmp_path, [*entries, entries[2]], received(tmp_path, entries[2]["file"], order))
    check_refused(tmp_path, entries[1:], "A replay's files make a whole ring. Received: ")
    check_refused(tmp_path, entries[1:], "no changes with a stored row were left out")


@pytest.mark.parametrize("name", ["since", "written"])
def test_an_entry_that_tells_something_else_than_its_file_is_refused(tmp_path, name):
    _, _, entries = three_files(tmp_path)
    true = entries[1][name]
    entries[1][name] = [7, 7]
    check_refused(tmp_path, entries, received(tmp_path, "000002.npz", f"{name}={true}, listed as [7, 7]"))


def test_files_of_another_ring_are_refused(tmp_path):
    _, _, entries = three_files(tmp_path)
    said = received(tmp_path, "000001.npz", "The")
    check_refused(tmp_path, entries, said, ring=make_ring(62, 2))
    check_refused(tmp_path, entries, said, ring=make_ring(60, 3))
    check_refused(tmp_path, entries, said, ring=frame_ring(60, 2, (), np.int32))


class Trap:
    def __reduce__(self):
        return open, ("trapped", "w")


def a_pickle(path):
    path.write_bytes(pickle.dumps(Trap()))


def objects(path):
    np.savez(path, **{"written": np.array([Trap()], object)})


def one_array(path):
    with open(path, "wb") as stream:
        np.save(stream, np.zeros(3))


def text_in_a_zip(path):
    import zipfile

    with zipfile.ZipFile(path, "w") as file:
        file.writestr("written", "text")


@pytest.mark.parametrize(
    "write", [a_pickle, objects, one_array, text_in_a_zip, lambda path: path.write_bytes(b""), Path.touch]
)
def test_a_file_of_something_else_runs_nothing_though_its_checksum_is_right(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "000001.npz"
    write(path)
    content = path.read_bytes()
    entry = {"file": path.name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    check_refused(tmp_path, [{**entry, "since": [0, 0], "written": [1, 1]}], received(tmp_path, path.name, ""))
    assert names(tmp_path) == ["000001.npz"]


@pytest.mark.parametrize(
    "wrong",
    [{"file": "../000001.npz"}, {"file": "/000001.npz"}, {"file": None}, {"bytes": "1"}, {"since": 0}, {"sha256": 1}],
)
def test_entries_that_are_none_are_refused(tmp_path, wrong):
    _, _, entries = three_files(tmp_path)
    said = f"A replay's files are listed as they were written. Received: {tmp_path}"
    check_refused(tmp_path, [{**entries[0], **wrong}], said)
    check_refused(tmp_path, [{name: entries[0][name] for name in entries[0].keys() - wrong.keys()}], said)
    check_refused(tmp_path, entries[0], said)
    check_refused(tmp_path, ["000001.npz"], said)


def test_a_read_that_finds_no_memory_leaves_an_empty_ring(tmp_path):
    def refuse(bytes_held, rows_held):
        raise MemoryError("enough")

    packed = functools.partial(CompressedFrames, block_rows=3, chunk_bytes=64)
    rings = [FrameRing(60, 2, (), np.int64, packed) for _ in range(2)]
    play_on(rings[0], 40)
    entries = SavedReplay(tmp_path, rings[0]).write()
    rings[1].frames._on_growth = refuse
    with pytest.raises(MemoryError, match="enough"):
        SavedReplay(tmp_path, rings[1]).read(entries)
    assert not rings[1].written.any()
