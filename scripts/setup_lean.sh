#!/usr/bin/env bash
# Installs Lean: elan when there is no Lean yet, and the release that lean/lean-toolchain pins.
#
#   bash scripts/setup_lean.sh              Lean; nothing is built, and nothing else is needed
#   bash scripts/setup_lean.sh --mathlib    also Mathlib's compiled files, in lean/mathlib/
#   bash scripts/setup_lean.sh --plan       only print what would be done and what it needs
#
# Needs the network: raw.githubusercontent.com and github.com (elan, Mathlib's sources),
# the servers of Lean's releases, and with --mathlib the servers of Mathlib's cache.
# Safe to run again and to interrupt. Never asks a question. ELAN_HOME is honoured. Linux and macOS.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
ELAN_DIR="${ELAN_HOME:-$HOME/.elan}"
ELAN_INSTALLER="https://raw.githubusercontent.com/leanprover/elan/master/elan-init.sh"
MATHLIB="$ROOT/lean/mathlib"
PIN="$(cat "$ROOT/lean/lean-toolchain")"
LEAN_NEEDS="2 GB of disk for Lean"
MATHLIB_NEEDS="9 GB for Mathlib and its compiled files"

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

find_program() {
  if command -v "$1" >/dev/null 2>&1; then
    command -v "$1"
  elif [[ -x "$ELAN_DIR/bin/$1" ]]; then
    printf '%s\n' "$ELAN_DIR/bin/$1"
  else
    return 1
  fi
}

# elan names the folder of leanprover/lean4:v4.32.0 leanprover--lean4---v4.32.0.
is_installed() {
  local folder="${PIN/\//--}"
  [[ -x "$ELAN_DIR/toolchains/${folder/:/---}/bin/lean" ]]
}

install_elan() {
  local installer status=0
  need_command curl
  say "installing elan into $ELAN_DIR (from github.com)"
  installer="$(mktemp)"
  curl --fail --silent --show-error --location --proto '=https' --output "$installer" \
    "$ELAN_INSTALLER" || status=$?
  if [[ $status -eq 0 ]]; then
    # The default release is the one that runs where no project pins another.
    ELAN_HOME="$ELAN_DIR" sh "$installer" -y --no-modify-path --default-toolchain "$PIN" || status=$?
  fi
  rm -f "$installer"
  [[ $status -eq 0 ]] || fail "elan was not installed" \
    "It comes from $ELAN_INSTALLER; is there a way to the network?"
}

# elan installs a release when it is first run; a Lean without elan is only asked for its version.
install_lean() {
  local lean said
  find_program lean >/dev/null || install_elan
  lean="$(find_program lean)" || fail "elan was installed, but there is no $ELAN_DIR/bin/lean"
  export PATH="${lean%/*}:$PATH" ELAN_HOME="$ELAN_DIR" ELAN_TOOLCHAIN="$PIN"
  said="$("$lean" --version)" || fail "$PIN was not installed" \
    "What failed is shown above; run this command again once there is a network."
  case "$said" in
    *"version ${PIN##*:v},"*) say "Lean is there: $said" ;;
    *) fail "$lean is another release: $said" \
      "This project pins $PIN. Remove that Lean from PATH, or use it as it is: PROVERRL_LEAN=$lean" ;;
  esac
}

# What Mathlib was fetched for, so that a changed pin fetches it anew.
stamp() { cat "$MATHLIB/lean-toolchain" "$MATHLIB/lakefile.toml"; }

is_ready() {
  [[ -f "$MATHLIB/.lake/proverrl-ready" && "$(cat "$MATHLIB/.lake/proverrl-ready")" == "$(stamp)" ]]
}

fetch_mathlib() {
  local lake="$1"
  say "fetching the dependencies of lean/mathlib (from github.com)"
  # The release is pinned here; an update must not move it. Mathlib's cache is fetched below.
  (cd "$MATHLIB" && MATHLIB_NO_CACHE_ON_UPDATE=1 "$lake" --keep-toolchain update) ||
    fail "the dependencies were not fetched" "Run this command again once there is a network."
  say "fetching Mathlib's compiled files (gigabytes)"
  (cd "$MATHLIB" && "$lake" exe cache get) || fail "Mathlib's compiled files were not fetched" \
    "Without them Mathlib takes hours to build; run this command again."
  (cd "$MATHLIB" && printf 'import Mathlib\n' | "$lake" env lean --stdin) ||
    fail "Mathlib was fetched, but Lean cannot import it" "In $MATHLIB: lake exe cache get!"
  stamp >"$MATHLIB/.lake/proverrl-ready"
}

show_plan() {
  local lean needs="$LEAN_NEEDS"
  if is_installed; then
    say "$PIN is installed"
  elif lean="$(find_program lean)"; then
    say "would ask $lean for $PIN, which elan installs if it is missing"
  else
    say "would install elan and $PIN into $ELAN_DIR"
  fi
  if [[ "$1" == yes ]]; then
    needs="$needs, $MATHLIB_NEEDS"
    if is_ready; then say "lean/mathlib is ready"; else say "would make lean/mathlib"; fi
  fi
  say "needs the network and by estimate $needs"
}

main() {
  local plan=no mathlib=no lake argument
  for argument in "$@"; do
    case "$argument" in
      --mathlib) mathlib=yes ;;
      --plan) plan=yes ;;
      *) fail "unknown argument '$argument'" \
        "usage: bash scripts/setup_lean.sh [--mathlib] [--plan]" ;;
    esac
  done
  if [[ "$plan" == yes ]]; then
    show_plan "$mathlib"
    return 0
  fi
  install_lean
  if [[ "$mathlib" == yes ]] && is_ready; then
    say "lean/mathlib is ready"
  elif [[ "$mathlib" == yes ]]; then
    need_command git
    lake="$(find_program lake)" || fail "there is no lake beside $(find_program lean)"
    fetch_mathlib "$lake"
  fi
  say "done; try: proverrl doctor"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then main "$@"; fi
