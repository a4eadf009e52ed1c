#!/usr/bin/env bash
# Trains double DQN on Breakout: `bash scripts/train.sh [arguments of dqn-train]`. The first time it
# installs everything into .venv. Runs are written below the folder it is called from.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment
exec "$commands/dqn-train" "$root/rundefs/breakout_v0.py" "$@"
