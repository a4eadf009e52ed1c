"""The file of a saved agent, compared with an agent that is to go on from it."""

import io
import tempfile
import zipfile
import zlib
from pathlib import Path

import h5py

_WEIGHTS = "model.weights.h5"  # as Keras calls it in a .keras file
_DAMAGED = (OSError, EOFError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error)


def check_saved_agent(agent, path: Path) -> None:
    """Refuses a file whose variables are not, one by one, of the shapes and dtypes of the agent's; changes nothing.

    Keras itself would leave out some of them without a word.

    Args:
        agent: compiled.
        path: as `agent.save` wrote it, `*.keras`.

    Raises:
        ValueError: it is damaged, or none, or of another agent; the text names the first layer that differs.
    """
    saved, own = _saved_variables(path), _own_variables(agent)
    for place in sorted(own.keys() | saved.keys()):
        name, wanted = own.get(place, ("", "none"))
        _, received = saved.get(place, ("", "none"))
        if wanted != received:
            where = f"{name} ({place})" if name else place
            raise ValueError(
                f"A saved agent must have the variables of the one that goes on from it, here {wanted} for {where}. "
                f"Received: {received} in {path}"
            )


def _saved_variables(path: Path) -> dict[str, tuple[str, str]]:
    try:
        with zipfile.ZipFile(path) as archive:
            return _variables(io.BytesIO(archive.read(_WEIGHTS)))  # all of it is compared with its checksum
    except _DAMAGED as error:
        raise ValueError(f"A saved agent is a .keras file as it was written. Received: {path}: {error}") from error


def _own_variables(agent) -> dict[str, tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.weights.h5"
        agent.save_weights(path)
        return _variables(path)


def _variables(source) -> dict[str, tuple[str, str]]:
    """Returns the name of each variable's layer, and its dtype and shape in words, by its path in the file."""
    found = {}

    def visit(path: str, entry) -> None:
        if isinstance(entry, h5py.Dataset):
            found[path] = entry.parent.attrs.get("name", ""), f"{entry.dtype}{list(entry.shape)}"

    with h5py.File(source, "r") as file:
        file.visititems(visit)
    return found
