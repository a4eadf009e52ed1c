#!/usr/bin/env bash
# Runs the tests: `bash scripts/test.sh [arguments of pytest]`. The first time it installs everything
# into .venv.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment test
cd "$root"
# A file at a time on each of two cores; `-n 0` for one process, which a debugger needs.
exec "$python" -m pytest -n 2 --dist loadfile "$@"
