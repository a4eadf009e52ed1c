#!/usr/bin/env bash
# Kills one Breakout run again and again, and compares its end with that of one left alone: takes six minutes on two free cores.
#
#   bash scripts/crash_test.sh [--kills 20] [--seed 0] [--updates 4000] [--out DIR] [--set KEY=VALUE ...]
#
# The first time it installs everything into .venv. The table of kills is printed, and the exit code is 0 if nothing
# differs and nothing was lost beyond one interval between two saves.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment test
exec "$python" "$root/scripts/crash_test.py" "$@"
