"""A film: pictures handed to ffmpeg one by one, as H.264 in mp4 that a browser plays, or as a gif."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from dqn_lab.output_file import check_output

SUFFIXES = (".mp4", ".gif")
_GIF_RATE = 50  # a gif counts hundredths of a second, and viewers slow down what asks for one of them
# Of RGB pictures ffmpeg makes this kind of YUV; said in the file, no player has to guess.
_COLOURS = "-colorspace smpte170m -color_primaries smpte170m -color_trc smpte170m".split()
_H264 = ["-c:v", "libx264", "-crf", "18", "-pix_fmt", "yuv420p", *_COLOURS, "-movflags", "+faststart", "-f", "mp4"]
_LOSSLESS = ["-c:v", "libx264rgb", "-qp", "0", "-preset", "ultrafast", "-f", "matroska"]
_PALETTE = "paletteuse=dither=none:diff_mode=rectangle"


class Film:
    """Writes a film beside its place and renames it; used by `with`: an error, or Ctrl-C, leaves nothing of it.

    A gif's palette is of all its pictures, so they wait in a file without loss.

    Args:
        path: of the film, by its suffix an .mp4 or a .gif. One that is there is replaced.

    Attributes:
        frames: pictures in it so far.
        frame_rate: of the film, in pictures per second; None before `begin`.
        size: width and height in pixels; None before the first picture.

    Raises:
        ValueError: another suffix, or a place that no file can be written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = check_output(path, SUFFIXES)
        self.frames, self.frame_rate, self.size = 0, None, None
        self._is_gif = self.path.suffix.lower() == ".gif"
        self._offered, self._every = 0, 1
        self._process: subprocess.Popen | None = None
        self._part, self._raw, self._colours = (self._beside(kind) for kind in ("part", "raw", "png"))
        self._part.touch()  # what can't be written is told before the games are played
        self._messages = tempfile.TemporaryFile()

    def __enter__(self) -> Film:
        return self

    def __exit__(self, kind, error, trace) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self.discard()

    def begin(self, frame_rate: float) -> None:
        """Says how many pictures a second come; a gif keeps every second one, or fewer, where they are above 50."""
        self._every = math.ceil(frame_rate / _GIF_RATE) if self._is_gif else 1
        self.frame_rate = frame_rate / self._every

    def write(self, picture: np.ndarray) -> None:
        """Takes the next picture, uint8 [H, W, 3] in RGB, both sides even; all are of one size.

        Raises:
            OSError: ffmpeg ended, such as on a full disk.
            ValueError: it has another size than the first.
        """
        self._offered += 1
        if (self._offered - 1) % self._every:
            return
        size = picture.shape[1], picture.shape[0]
        if self.size is None:
            self.size = size
            self._start()
        if size != self.size:
            raise ValueError(f"All pictures of a film have one size, {self.size}. Received: size={size}")
        try:
            self._process.stdin.write(np.ascontiguousarray(picture))
        except OSError as error:  # it has ended, and says why
            raise self._failure() from error
        self.frames += 1

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.frames / self.frame_rate

    def discard(self) -> None:
        """Ends ffmpeg and removes what isn't the whole film."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.wait()
        self._messages.close()
        for path in (self._part, self._raw, self._colours):
            path.unlink(missing_ok=True)

    def _start(self) -> None:
        width, height = self.size
        pictures = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(self.frame_rate)]
        coded = [*_LOSSLESS, self._raw] if self._is_gif else [*_H264, self._part]
        self._process = self._run(*pictures, "-i", "pipe:0", *coded)

    def _finish(self) -> None:
        if self._process is None:
            raise ValueError("A film has a picture at least. Received: none")
        self._wait()
        if self._is_gif:
            self._process = self._run(
                "-i", self._raw, "-vf", "palettegen", "-f", "image2", "-c:v", "png", self._colours
            )
            self._wait()
            self._process = self._run("-i", self._raw, "-i", self._colours, "-lavfi", _PALETTE, "-f", "gif", self._part)
            self._wait()
        os.replace(self._part, self.path)

    def _run(self, *words) -> subprocess.Popen:
        # By names alone, of which a "%" is taken out: in a path ffmpeg takes it for the place of a picture's number.
        command = [_ffmpeg(), "-y", "-loglevel", "error", *(getattr(word, "name", word) for word in words)]
        return subprocess.Popen(
            command,
            cwd=self.path.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,  # Ctrl-C is this process's to handle
        )

    def _wait(self) -> None:
        try:
            self._process.stdin.close()
        except OSError as error:
            raise self._failure() from error
        if self._process.wait():
            raise self._failure()

    def _failure(self) -> OSError:
        self._process.wait()
        self._messages.seek(0)
        said = self._messages.read().decode(errors="replace").strip().splitlines() or ["nothing"]
        return OSError(f"ffmpeg couldn't write the film; it says: {said[-1]}. Received: out={str(self.path)!r}")

    def _beside(self, kind: str) -> Path:
        name = self.path.name.replace("%", "")
        return self.path.with_name(f".{name}.{os.getpid()}.{kind}")


def _ffmpeg() -> str:
    import imageio_ffmpeg

    try:
        return imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:  # a platform that its wheel has no program for
        raise ImportError(f"A film needs ffmpeg: {error}") from None
