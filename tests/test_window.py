"""The window: pictures at their speed, closed by whoever watches, one line where there is no display."""

import sys

import numpy as np
import pytest

from dqn_lab.films.window import Window, WindowClosed

pygame = pytest.importorskip("pygame")


@pytest.fixture
def display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    yield
    pygame.display.quit()


class Time:
    """A clock that moves when one waits."""

    def __init__(self):
        self.now, self.waits = 100.0, []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.waits.append(round(seconds, 6))
        self.now += seconds


def window_of(time):
    return Window("runs/catch-seed0", clock=time.clock, sleep=time.sleep)


def picture_of(red, height=40, width=60):
    picture = np.zeros((height, width, 3), np.uint8)
    picture[:10, :, 0] = red
    return picture


def test_a_picture_is_shown_as_it_is(display):
    window = window_of(Time())
    window.show(picture_of(200), 50.0)
    shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    assert np.array_equal(shown, picture_of(200))
    assert pygame.display.get_caption()[0] == "runs/catch-seed0"
    window.show(picture_of(100, height=20), 50.0)
    assert pygame.display.get_surface().get_size() == (60, 20)
    window.close()
    assert not pygame.display.get_init()


def test_each_picture_is_seen_for_its_time_and_a_late_one_is_not_made_up_for(display):
    time = Time()
    window = window_of(time)
    window.show(picture_of(1), 50.0)
    time.now += 0.005
    window.show(picture_of(2), 50.0)
    time.now += 0.1
    window.show(picture_of(3), 50.0)
    window.show(picture_of(4), 50.0)
    assert time.waits == [0.015, 0.02]


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        (pygame.event.Event(pygame.QUIT), True),
        (pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE), True),
        (pygame.event.Event(pygame.KEYDOWN, key=pygame.K_q), True),
        (pygame.event.Event(pygame.KEYDOWN, key=pygame.K_a), False),
    ],
)
def test_closing_it_ends_the_games(display, event, ends):
    window = window_of(Time())
    window.show(picture_of(1), 50.0)
    pygame.event.post(event)
    if not ends:
        window.show(picture_of(2), 50.0)
        return
    with pytest.raises(WindowClosed):
        window.show(picture_of(2), 50.0)


@pytest.mark.linux
def test_no_display_is_refused(monkeypatch):
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="A window needs a display; .* Received: neither DISPLAY nor WAYLAND_DISPLAY"):
        window_of(Time())


def test_a_display_that_does_not_open_is_refused_in_sdls_words(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonesuch")
    with pytest.raises(ValueError, match="A window needs a display; .* Received: .*nonesuch"):
        window_of(Time())


@pytest.mark.linux
def test_a_display_that_shows_nothing_counts_only_where_it_was_asked_for(monkeypatch):
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(pygame.display, "init", lambda: None)
    monkeypatch.setattr(pygame.display, "get_driver", lambda: "dummy")
    with pytest.raises(ValueError, match="Received: SDL's driver dummy"):
        window_of(Time())


def test_without_pygame_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ImportError, match="A window needs pygame-ce: .* extra `video`"):
        window_of(Time())
