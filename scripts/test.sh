#!/usr/bin/env bash
# Runs the tests: `bash scripts/test.sh [arguments of pytest]`. The first time it installs everything
# into .venv.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment test
cd "$root"
exec "$python" -m pytest "$@"
