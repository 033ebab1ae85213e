#!/usr/bin/env bash
# Runs every check that a change must pass, and stops at the first that fails.
#
#   bash scripts/test.sh                       all checks
#   bash scripts/test.sh --fast                all but the tests marked slow
#   bash scripts/test.sh --core                the fast tests in a copy without the lab
#   bash scripts/test.sh tests/cli/test_cli.py     other arguments are passed to pytest
# --fast is for working on a change: it tests every module, sends the texts of attacks through the
# audit, and has real Dafny judge true and false statements in a pool. The tests that it skips take
# seconds each: whole training runs, killed and resumed, runs with two processes, searches with real
# Dafny, and all problems and attacks under Dafny. All checks must pass before a change is merged.
# Without paths the tests run in one process more than there are cores, four at most: some wait, for a
# deadline or another process. The tests of one file stay together.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

chosen=() core=
if [[ "${1:-}" == --core ]]; then
  core=yes chosen=(-m "not slow")
  shift
fi
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
if [[ -n $core ]]; then
  # Beside the copy lies metadata whose entry points name nothing of the lab: Python finds it before
  # that of the environment.
  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  mkdir "$place/core"
  git ls-files --cached --others --exclude-standard -z \
    | grep -zEv '^(proverrl|tests|scripts)/lab/' | tar -c --null --files-from - --ignore-failed-read \
    | tar -x -C "$place/core"
  cd "$place/core"
  sed -i '/= "proverrl\.lab\./d' pyproject.toml
  python -m pip install -q --no-deps --no-build-isolation --target "$place/wheel" . </dev/null
  rm -rf build ./*.egg-info "$place/wheel/proverrl"
  export PYTHONPATH=$place/core:$place/wheel
fi
check ruff format --check .
check ruff check .
check mypy --strict --num-workers "$(getconf _NPROCESSORS_ONLN)"
if [[ $# -eq 0 ]]; then
  # --dist loadfile: what a module's tests share is made once.
  processes=$(($(getconf _NPROCESSORS_ONLN) + 1))
  set -- --numprocesses "$processes" --maxprocesses 4 --dist loadfile --no-loadscope-reorder
fi
check python -m pytest --durations=20 "${chosen[@]}" "$@"
