#!/usr/bin/env bash
# Trains what the README claims, judges it, and writes the table: hours on two cores that do nothing else.
#
#   bash scripts/prove_learning.sh DIR [--claim NAME ...] [--sb3-python PATH] [--judge-only]
#
# Each run is a directory in DIR. The same command goes on where it was broken off, and of what is done makes nothing again.
# The first time it installs everything into .venv.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment
exec "$python" "$root/scripts/prove_learning.py" "$@"
