#!/usr/bin/env bash
# The quick checks before a commit: format, lint, layers, and the tests that load no TensorFlow.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment test
cd "$root"
"$python" -m ruff format --check .
"$python" -m ruff check .
slow='keras|tensorflow|subprocess|from dqn_lab import'
slow="$slow|dqn_lab\.(targets|losses|optimizers|models|sequences|agents|asynchronous|callbacks|run|cli)"
"$python" -m pytest --quiet tests/test_layers.py $(grep -LE "$slow" tests/test_*.py)
