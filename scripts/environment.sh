# Sourced by the other scripts: makes .venv beside this folder and installs the package into it.
#
#   prepare_environment EXTRA...   sets `root`, `python` and `commands` (the folder of dqn-train)
#
# What was installed is written into .venv when it is done: the next call takes no time, and what was
# broken off, a changed pyproject.toml, another Python or a moved clone is installed again.
# Bash 3.2, which macOS has, will do.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

is_supported() { # PYTHON
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    is_supported "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.11, 3.12 or 3.13."
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3 python python3.13 python3.12 python3.11; do
    if is_supported "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "dqn_lab needs Python 3.11, 3.12 or 3.13: none is on the PATH, and PYTHON doesn't name one."
}

locate_commands() {
  commands="$root/.venv/bin"
  if [ -d "$root/.venv/Scripts" ]; then commands="$root/.venv/Scripts"; fi # Windows
  python="$commands/python"
}

has_pip() {
  "$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip >/dev/null 2>&1
}

make_venv() {
  local base
  if is_supported "$python" && has_pip; then return; fi
  base=$(find_python) || exit 1
  printf 'Making %s with %s\n' "$root/.venv" "$("$base" --version)"
  "$base" -m venv --clear "$root/.venv" ||
    fail "Python could not make a virtual environment; Debian and Ubuntu have it in python3-venv."
  locate_commands
}

stamp() { # what an installation depends on
  printf '%s %s %s' "$(cksum <"$root/pyproject.toml")" "$("$python" --version)" "$root"
}

are_installed() { # base EXTRA...
  local extra now
  is_supported "$python" || return 1
  now=$(stamp)
  for extra in "$@"; do
    [ "$(cat "$root/.venv/installed-$extra" 2>/dev/null)" = "$now" ] || return 1
  done
}

install_package() { # base EXTRA...
  local extra extras="" now
  for extra in "$@"; do
    if [ "$extra" != base ]; then extras="$extras,$extra"; fi
  done
  if [ -n "$extras" ]; then extras="[${extras#,}]"; fi
  printf 'Installing dqn_lab%s into %s (the first time it takes minutes)\n' "$extras" "$root/.venv"
  now=$(stamp) # before pip reads pyproject.toml: an edit meanwhile is installed by the next call
  (cd "$root" && "$python" -m pip install --quiet --disable-pip-version-check --editable ".$extras") ||
    fail "The installation failed; pip says above why."
  for extra in "$@"; do printf '%s\n' "$now" >"$root/.venv/installed-$extra"; done
}

prepare_environment() { # EXTRA...
  # The plain wheel brings no CUDA libraries; the extra that does exists for Linux, and so for WSL2.
  if [ "$(uname -s)" = Linux ] && nvidia-smi >/dev/null 2>&1; then set -- gpu "$@"; fi
  set -- base "$@"
  locate_commands
  if are_installed "$@"; then return; fi
  make_venv
  install_package "$@"
}
