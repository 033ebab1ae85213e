#!/usr/bin/env bash
# Runs every check that a change must pass, and stops at the first that fails.
#
#   bash scripts/test.sh                       all checks
#   bash scripts/test.sh --fast                all but the tests that are marked slow
#   bash scripts/test.sh tests/test_cli.py     arguments go on to pytest, after --fast if it is there
#
# --fast is for each change while one works on it: every module is tested, texts of attacks go
# through the audit, and real Dafny judges true and false statements in a pool. What it leaves out
# takes seconds a test: whole training runs, killed and resumed, runs by two processes, searches
# with real Dafny, and all problems and attacks under it. All checks must pass before a change is
# merged.
#
# Without paths the tests run in one process a core, four at most, a file's tests in one of them.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

chosen=()
if [[ "${1:-}" == --fast ]]; then
  chosen=(-m "not slow")
  shift
fi

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
if [[ $# -eq 0 ]]; then
  # --dist loadfile: what a module's tests share is made once.
  set -- --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
fi
check python -m pytest --durations=20 "${chosen[@]}" "$@"
