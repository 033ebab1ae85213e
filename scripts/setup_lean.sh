#!/usr/bin/env bash
# Prepares the Lean side: elan when it is missing, the pinned Lean, the REPL, and on request Mathlib.
#
#   bash scripts/setup_lean.sh              the REPL in lean/
#   bash scripts/setup_lean.sh --mathlib    the REPL and Mathlib's compiled files in lean/mathlib/
#   bash scripts/setup_lean.sh --plan       only print what would be done and what it needs
#
# Needs the network: github.com and raw.githubusercontent.com (elan, the REPL, Mathlib's sources),
# the servers of Lean's releases, and with --mathlib the servers of Mathlib's cache.
# Safe to run again and to interrupt. Never asks a question. ELAN_HOME is honoured.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
ELAN_DIR="${ELAN_HOME:-$HOME/.elan}"
ELAN_INSTALLER="https://raw.githubusercontent.com/leanprover/elan/master/elan-init.sh"
PLAIN_NEEDS="by estimate 3 GB of disk (Lean itself and the REPL)"
MATHLIB_NEEDS="by estimate 12 GB of disk (Lean, the REPL, Mathlib and its compiled files)"

say() { printf 'setup_lean: %s\n' "$*"; }

fail() {
  printf 'setup_lean: error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '            %s\n' "$line" >&2; done
  exit 1
}

need_command() {
  command -v "$1" >/dev/null 2>&1 || fail "$1 is missing" "Debian and Ubuntu: sudo apt-get install -y $1"
}

find_lake() {
  if command -v lake >/dev/null 2>&1; then
    command -v lake
  elif [[ -x "$ELAN_DIR/bin/lake" ]]; then
    printf '%s\n' "$ELAN_DIR/bin/lake"
  else
    return 1
  fi
}

install_elan() {
  local installer status=0
  need_command curl
  say "installing elan into $ELAN_DIR (from github.com)"
  installer="$(mktemp)"
  curl --fail --silent --show-error --location --proto '=https' --output "$installer" \
    "$ELAN_INSTALLER" || status=$?
  if [[ $status -eq 0 ]]; then
    ELAN_HOME="$ELAN_DIR" sh "$installer" -y --no-modify-path --default-toolchain none || status=$?
  fi
  rm -f "$installer"
  [[ $status -eq 0 ]] || fail "elan was not installed" \
    "It comes from $ELAN_INSTALLER; is there a way to the network?"
}

repl_of() { printf '%s/.lake/packages/REPL/.lake/build/bin/repl\n' "$1"; }

# The release that a build was made for, so that a changed pin builds anew.
stamp_of() { cat "$1/lean-toolchain" "$1/lakefile.toml" | sha256sum | cut -d ' ' -f 1; }

is_built() {
  local project="$1" stamp="$1/.lake/proverrl-built"
  [[ -x "$(repl_of "$project")" && -f "$stamp" ]] || return 1
  [[ "$(cat "$stamp")" == "$(stamp_of "$project")" ]]
}

fetch_dependencies() {
  local lake="$1" project="$2"
  say "fetching the dependencies of ${project#"$ROOT"/} (from github.com), and Lean if it is missing"
  # The toolchain is pinned here; an update must not move it. Mathlib's cache is fetched below.
  (cd "$project" && MATHLIB_NO_CACHE_ON_UPDATE=1 "$lake" --keep-toolchain update) ||
    fail "the dependencies were not fetched" "Run this command again once there is a network."
}

build() {
  local lake="$1" project="$2" mathlib="$3"
  fetch_dependencies "$lake" "$project"
  if [[ "$mathlib" == yes ]]; then
    say "fetching Mathlib's compiled files (gigabytes)"
    (cd "$project" && "$lake" exe cache get) || fail "Mathlib's compiled files were not fetched" \
      "Without them Mathlib takes hours to build; run this command again."
  fi
  say "building the REPL"
  (cd "$project" && "$lake" build @REPL/repl) || fail "the REPL was not built" \
    "What failed is shown above. In $project: lake build @REPL/repl"
  [[ -x "$(repl_of "$project")" ]] || fail "the REPL was built, but not at $(repl_of "$project")" \
    "Find it and set PROVERRL_LEAN_REPL to it."
  stamp_of "$project" >"$project/.lake/proverrl-built"
}

show_plan() {
  local project="$1" needs="$2" lake
  if lake="$(find_lake)"; then say "lake is there: $lake"; else say "would install elan into $ELAN_DIR"; fi
  say "release: $(cat "$project/lean-toolchain")"
  if is_built "$project"; then say "the REPL is built in $project"; else say "would build the REPL in $project"; fi
  say "needs the network and $needs"
}

main() {
  local mathlib=no plan=no project="$ROOT/lean" needs="$PLAIN_NEEDS" lake argument
  for argument in "$@"; do
    case "$argument" in
      --mathlib) mathlib=yes project="$ROOT/lean/mathlib" needs="$MATHLIB_NEEDS" ;;
      --plan) plan=yes ;;
      *) fail "unknown argument '$argument'" "usage: bash scripts/setup_lean.sh [--mathlib] [--plan]" ;;
    esac
  done
  if [[ "$plan" == yes ]]; then
    show_plan "$project" "$needs"
    return 0
  fi
  if find_lake >/dev/null && is_built "$project"; then
    say "everything is installed: $(cat "$project/lean-toolchain"), REPL in $project"
    return 0
  fi
  say "this needs the network and $needs"
  need_command git
  find_lake >/dev/null || install_elan
  lake="$(find_lake)" || fail "elan was installed, but there is no $ELAN_DIR/bin/lake"
  export PATH="${lake%/*}:$PATH" ELAN_HOME="$ELAN_DIR"
  build "$lake" "$project" "$mathlib"
  say "done; try: proverrl doctor, or pytest -m lean"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then main "$@"; fi
