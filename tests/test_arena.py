"""The arena: blocks lie where they were put, full chunks stay as they are, and memory is used again."""

import pytest

from dqn_lab.replay.arena import Arena


class Growth:
    """Counts chunks, and refuses those beyond a limit."""

    def __init__(self, limit=100):
        self.count, self.limit = 0, limit

    def __call__(self):
        if self.count == self.limit:
            raise MemoryError("no more")
        self.count += 1


def put(arena, *blocks):
    return [(*arena.put(block), len(block)) for block in blocks]


def read(arena, places):
    return [bytes(arena.get(*place)) for place in places]


def chunks(arena):
    return {serial: data.tobytes() for serial, data in arena.get_state().items()}


def test_blocks_lie_one_behind_the_other_and_never_across_two_chunks():
    arena = Arena(8, Growth())
    places = put(arena, b"abc", b"defgh", b"i", b"jklmnopq", b"r")
    assert places == [(0, 0, 3), (0, 3, 5), (1, 0, 1), (2, 0, 8), (3, 0, 1)]
    assert read(arena, places) == [b"abc", b"defgh", b"i", b"jklmnopq", b"r"]
    assert chunks(arena) == {0: b"abcdefgh", 1: b"i", 2: b"jklmnopq", 3: b"r"}


def test_a_chunk_is_used_again_once_it_is_full_and_all_its_blocks_are_released():
    growth = Growth()
    arena = Arena(4, growth)
    put(arena, b"ab", b"cd", b"ef")
    arena.release(0)
    put(arena, b"gh")
    assert growth.count == 2  # cd still lies in the first one
    arena.release(0)
    assert sorted(chunks(arena)) == [1]
    assert put(arena, b"ij") == [(2, 0, 2)]
    assert growth.count == 2
    assert chunks(arena) == {1: b"efgh", 2: b"ij"}


def test_the_chunk_being_filled_is_not_given_up_before_it_is_full():
    growth = Growth()
    arena = Arena(4, growth)
    put(arena, b"ab")
    arena.release(0)
    assert put(arena, b"c") == [(0, 2, 1)]
    arena.release(0)
    assert put(arena, b"defg") == [(1, 0, 4)]
    assert growth.count == 1
    assert chunks(arena) == {1: b"defg"}


def test_blocks_that_come_and_go_in_turn_need_no_more_memory_and_no_serial_comes_again():
    growth, serials = Growth(), []
    arena = Arena(16, growth)
    for number in range(1_000):
        block = b"x" * (number % 7 + 1)
        serials.append(arena.put(block)[0])
        if number >= 20:
            arena.release(serials[number - 20])
    assert growth.count <= 9  # 20 blocks of 4 bytes in chunks of 16, one of them partly released, one being filled
    assert arena.nbytes <= 9 * 16
    assert sorted(serials) == serials and serials[-1] > 200


def test_only_bytes_that_were_written_to_count():
    arena = Arena(100, Growth())
    assert arena.nbytes == 0
    put(arena, b"x" * 30, b"x" * 40)
    assert arena.nbytes == 70
    put(arena, b"x" * 60)
    assert arena.nbytes == 130
    arena.release(0)
    arena.release(0)
    assert arena.nbytes == 160  # one free, of which all may have been written to
    put(arena, b"x" * 50)
    assert arena.nbytes == 160


def test_growth_that_is_refused_leaves_all_as_it_was():
    arena = Arena(4, Growth(limit=1))
    places, before = put(arena, b"abc"), chunks(arena)
    for _ in range(2):
        with pytest.raises(MemoryError, match="no more"):
            arena.put(b"de")
        assert chunks(arena) == before and read(arena, places) == [b"abc"]
    assert put(arena, b"d") == [(0, 3, 1)]


def test_a_restored_arena_goes_on_as_the_saved_one():
    arena, copy = Arena(4, Growth()), Arena(4, Growth())
    put(arena, b"ab", b"cd", b"ef", b"gh", b"ij")
    arena.release(1)
    copy.set_state(arena.get_state(), {0: 2, 1: 1, 2: 1})
    for each in (arena, copy):
        assert put(each, b"kl") == [(2, 2, 2)]
        each.release(1)
        each.release(0)
        assert put(each, b"mn") == [(3, 0, 2)]
    assert chunks(copy) == chunks(arena) == {0: b"abcd", 2: b"ijkl", 3: b"mn"}
    assert copy.nbytes == 4 + 4 + 4  # the released one is used again


def test_a_restore_that_finds_no_memory_leaves_all_as_it_was():
    arena, copy = Arena(2, Growth()), Arena(2, Growth(limit=2))
    put(arena, b"ab", b"cd")
    put(copy, b"xy")
    with pytest.raises(MemoryError):
        copy.set_state(arena.get_state(), {0: 1, 1: 1})
    assert chunks(copy) == {0: b"xy"}


def test_a_cleared_arena_has_given_its_memory_back_and_takes_no_serial_number_again():
    growth = Growth()
    arena = Arena(10, growth)
    for _ in range(3):
        serial, _ = arena.put(b"12345678")
    arena.clear()
    assert (arena.nbytes, arena.get_state()) == (0, {})
    assert arena.put(b"abc") == (serial + 1, 0)
    assert bytes(arena.get(serial + 1, 0, 3)) == b"abc"
