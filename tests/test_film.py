"""A film's file: its pictures come back from it, and what isn't whole isn't there."""

import re
import subprocess
import sys

import cv2
import numpy as np
import pytest

from dqn_lab.films import film as film_module
from dqn_lab.films.film import Film


def decoded(path):
    """All pictures of a film, [T, H, W, 3] in RGB, and its rate."""
    capture, pictures = cv2.VideoCapture(str(path)), []
    while (read := capture.read())[0]:
        pictures.append(read[1][:, :, ::-1])
    return np.array(pictures), capture.get(cv2.CAP_PROP_FPS)


def pictures_of(count, width=64, height=48):
    """Flat colours and a white bar that tells the picture's number."""
    pictures = np.full((count, height, width, 3), (200, 72, 40), np.uint8)
    pictures[:, height // 2 :] = (30, 90, 180)
    for number, picture in enumerate(pictures):
        picture[:8, : 2 * number + 2] = 255
    return pictures


def write(path, pictures, rate):
    with Film(path) as film:
        film.begin(rate)
        for picture in pictures:
            film.write(picture)
    return film


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_mp4_has_each_picture_in_its_colours_and_plays_in_browsers(tmp_path):
    expected = pictures_of(20)
    film = write(tmp_path / "game.mp4", expected, 60.0)
    assert (film.frames, film.size, film.seconds) == (20, (64, 48), 20 / 60)
    pictures, rate = decoded(film.path)
    assert (pictures.shape, rate) == (expected.shape, 60.0)
    assert np.abs(pictures.astype(int) - expected).mean() < 4
    assert np.abs(pictures[:, 12:20, 8:56].astype(int) - (200, 72, 40)).max() < 12  # RGB, not BGR, and the right matrix
    said = subprocess.run([film_module._ffmpeg(), "-i", film.path], capture_output=True, text=True).stderr
    assert re.search(r"Video: h264 .*yuv420p\(tv, smpte170m.*60 fps", said)
    data = film.path.read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")  # a browser can begin before it has all
    assert names(tmp_path) == ["game.mp4"]


def test_a_gif_has_every_second_picture_of_sixty_a_second_without_loss(tmp_path):
    expected = pictures_of(21)
    film = write(tmp_path / "game.GIF", expected, 60.0)
    pictures, _ = decoded(film.path)
    assert (film.frames, film.frame_rate, film.seconds) == (11, 30.0, 11 / 30)
    found = re.findall(
        rb"\x21\xf9\x04.(..)", film.path.read_bytes(), re.S
    )  # of each picture, in hundredths of a second
    delays = [int.from_bytes(each, "little") for each in found]
    assert len(delays) == 11
    assert sum(delays) == pytest.approx(100 * 11 / 30, abs=1.5)
    assert np.array_equal(pictures, expected[::2])
    assert names(tmp_path) == ["game.GIF"]


@pytest.mark.parametrize(("given", "kept"), [(8.0, 8.0), (50.0, 50.0), (51.0, 25.5), (120.0, 40.0)])
def test_the_rate_of_a_gif_is_fifty_at_most(tmp_path, given, kept):
    film = Film(tmp_path / "game.gif")
    film.begin(given)
    film.discard()
    assert film.frame_rate == kept


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("name", ["game.mp4", "game.gif"])
def test_what_breaks_in_leaves_nothing_of_the_film_and_an_older_one_as_it_was(tmp_path, name, error):
    (tmp_path / name).write_bytes(b"older")
    with pytest.raises(error), Film(tmp_path / name) as film:
        film.begin(30.0)
        film.write(pictures_of(1)[0])
        raise error
    assert film._process.returncode is not None
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"older"


def test_an_older_film_is_replaced(tmp_path):
    (tmp_path / "game.mp4").write_bytes(b"older")
    assert len(decoded(write(tmp_path / "game.mp4", pictures_of(3), 8.0).path)[0]) == 3


@pytest.mark.parametrize("name", ["%d.mp4", "%d.gif"])
def test_a_name_that_ffmpeg_would_count_by_is_a_name(tmp_path, monkeypatch, name):
    (tmp_path / "100%d").mkdir()
    monkeypatch.chdir(tmp_path)
    film = write(f"100%d/{name}", pictures_of(4), 25.0)
    assert names(tmp_path / "100%d") == [name]
    assert film.path.stat().st_size > 500


def test_an_ffmpeg_that_fails_is_told_in_its_words(tmp_path, monkeypatch):
    monkeypatch.setattr(film_module, "_ffmpeg", lambda: sys.executable)  # which knows no -y
    with pytest.raises(OSError, match=r"ffmpeg couldn't write the film; it says: .+\. Received: out='.*game.mp4'"):
        write(tmp_path / "game.mp4", pictures_of(200), 30.0)
    assert names(tmp_path) == []


def test_a_machine_without_ffmpeg_is_told(monkeypatch):
    import imageio_ffmpeg

    def missing():
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", missing)
    with pytest.raises(ImportError, match="A film needs ffmpeg: No ffmpeg exe could be found."):
        film_module._ffmpeg()


def test_pictures_of_two_sizes_and_a_film_of_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"one size, \(64, 48\). Received: size=\(32, 48\)"):
        write(tmp_path / "game.mp4", [pictures_of(1)[0], pictures_of(1, width=32)[0]], 30.0)
    with pytest.raises(ValueError, match="A film has a picture at least. Received: none"):
        write(tmp_path / "game.mp4", [], 30.0)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("game.avi", "must end in .mp4, .gif. Received: out="),
        ("game", "must end in .mp4, .gif. Received: out="),
        ("none/game.mp4", "The folder of `out` doesn't exist. Received: out="),
        ("folder.mp4", "there is a folder. Received: out="),
    ],
)
def test_a_place_where_no_film_can_be_is_refused_before_anything_is_played(tmp_path, name, rule):
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(ValueError, match=rule):
        Film(tmp_path / name)
    assert names(tmp_path) == ["folder.mp4"]
