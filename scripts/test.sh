#!/usr/bin/env bash
# Runs every check that a change must pass, and stops at the first that fails.
#
#   bash scripts/test.sh                        all checks
#   bash scripts/test.sh tests/test_types.py    arguments go on to pytest
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh dev </dev/null

check() {
  local status=0 started=$SECONDS
  printf '\n== %s\n' "$*"
  "$@" </dev/null || status=$?
  if [[ $status -ne 0 ]]; then
    printf 'test: FAILED (exit %s) at: %s\n' "$status" "$*" >&2
    exit "$status"
  fi
  printf '== passed in %s s: %s\n' "$((SECONDS - started))" "$1 ${2:-}"
}

# The tools and the tests start programs by name; those of .venv come first.
export PATH="$PWD/.venv/bin:$PATH"
check ruff format --check .
check ruff check .
check mypy --strict
check python -m pytest "$@"
