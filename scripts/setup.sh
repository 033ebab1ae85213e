#!/usr/bin/env bash
# Prepares this folder for work: a virtual environment in .venv with the pinned dependencies and this
# package, and a Dafny where there is none. A Dafny 4 comes from `python -m proverrl.lang.dafny.install`;
# where it cannot be had, Dafny 2.3 comes from apt-get.
#
#   bash scripts/setup.sh          what the demo needs
#   bash scripts/setup.sh dev      the same plus the development tools and Dafny 2.3, for the tests
#
# Safe to run again, to interrupt, and to run twice at once. Never asks a question.
# PROVERRL_PYTHON names the Python to use; pip's own configuration and environment are honoured.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
LOG="$VENV/setup.log"
INSTALLING="$VENV/.setup-installing"
NO_DAFNY_4="$VENV/.setup-no-dafny-4"
LOCK_WAIT_SECONDS=1800
TICKER=""

say() { printf 'setup: %s\n' "$*"; }

fail() {
  printf 'setup: error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

stop_ticker() {
  if [[ -n "$TICKER" ]]; then
    kill "$TICKER" 2>/dev/null || true
    wait "$TICKER" 2>/dev/null || true
    TICKER=""
  fi
}

# Runs a command with its output in the log, and prints one line with the seconds that it took.
try_stage() {
  local label="$1" started=$SECONDS status=0
  shift
  if [[ -t 1 ]]; then
    (
      # Ends by itself if the script that started it was killed.
      while kill -0 "$$" 2>/dev/null; do
        printf '\rsetup: %s ... %s s' "$label" "$((SECONDS - started))"
        sleep 1
      done
    ) 9>&- &
    TICKER=$!
  else
    printf 'setup: %s ...' "$label"
  fi
  printf '\n== %s: %s\n' "$label" "$*" >>"$LOG"
  "$@" >>"$LOG" 2>&1 </dev/null || status=$?
  stop_ticker
  if [[ -t 1 ]]; then printf '\rsetup: %s ...' "$label"; fi
  if [[ $status -eq 0 ]]; then
    printf ' %s s\n' "$((SECONDS - started))"
    return 0
  fi
  printf ' failed after %s s\n' "$((SECONDS - started))"
  return "$status"
}

# The same, and where it fails the end of the log.
run_stage() {
  local status=0
  try_stage "$@" || status=$?
  if [[ $status -ne 0 ]]; then
    {
      printf -- '--- the end of %s\n' "$LOG"
      tail -n 30 "$LOG"
      printf -- '---\n'
    } >&2
  fi
  return "$status"
}

python_is_recent() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Prints the first Python that is recent enough; fails when there is none. The one in .venv does
# not count: an activated .venv would otherwise be asked to rebuild itself.
find_python() {
  local name path names=(python3 python3.13 python3.12 python3.11 python3.14)
  if [[ -n "${PROVERRL_PYTHON:-}" ]]; then names=("$PROVERRL_PYTHON"); fi
  for name in "${names[@]}"; do
    while IFS= read -r path; do
      if [[ "$path" != "$VENV/"* ]] && python_is_recent "$path"; then
        printf '%s\n' "$path"
        return 0
      fi
    done < <(type -aP "$name" 2>/dev/null)
  done
  return 1
}

# Prints the Debian packages that this machine lacks, one a line.
list_missing_packages() {
  local python="$1"
  # The z3 of the z3-solver wheel is linked to it, and a minimal system lacks it.
  if ! "$python" -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' >/dev/null 2>&1; then
    printf 'libgomp1\n'
  fi
  if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
  fi
}

# Prints the words that give apt-get its rights, one a line; fails when there are none.
root_prefix() {
  if [[ "$(id -u)" -eq 0 ]]; then
    printf 'env\n'
  elif command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1 </dev/null; then
    printf 'sudo\n-n\nenv\n'
  else
    return 1
  fi
}

can_apt() { command -v apt-get >/dev/null 2>&1 && root_prefix >/dev/null; }

apt_install() {
  local prefix=() apt=(DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  mapfile -t prefix < <(root_prefix)
  # A broken third-party source fails the update; what we need may be there all the same.
  "${prefix[@]}" "${apt[@]}" update 9>&- || printf 'apt-get update failed; going on\n'
  "${prefix[@]}" "${apt[@]}" install -y --no-install-recommends "$@" 9>&-
}

# Installs Debian packages, or says what to run.
need_packages() {
  local by_hand="sudo apt-get update && sudo apt-get install -y $*"
  if can_apt; then
    run_stage "installing $* (apt-get)" apt_install "$@" && return 0
    fail "$* could not be installed. What failed is shown above. By hand:" \
      "$by_hand" "and then run this command again."
  elif command -v apt-get >/dev/null 2>&1; then
    fail "missing on this machine, and installing needs root: $*. Run:" \
      "$by_hand" "and then run this command again."
  fi
  fail "missing on this machine, which has no apt-get to bring them: $*" \
    "(these are the packages' names on Debian 12 and Ubuntu 22.04 or 24.04)." \
    "Install them by your system's own means, and run this again."
}

# What an installation depends on, as one hash: a change of any part makes it out of date.
stamp_of() {
  local python="$1" extras="$2"
  {
    printf '%s\n%s\n' "$ROOT" "$extras"
    "$python" -c 'import sys; print(sys.version, sys.base_prefix)'
    cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt"
  } | sha256sum | cut -d ' ' -f 1
}

stamp_file() { printf '%s/.setup-stamp-%s\n' "$VENV" "${1:-base}"; }

is_installed() {
  local python="$1" extras="$2" file
  file="$(stamp_file "$extras")"
  [[ -f "$file" && -x "$VENV/bin/proverrl" && ! -e "$INSTALLING" ]] || return 1
  [[ "$(cat "$file")" == "$(stamp_of "$python" "$extras")" ]]
}

# True when .venv was made for this folder by this Python and no installation was cut short.
venv_is_usable() {
  local python="$1"
  [[ ! -e "$INSTALLING" && -f "$VENV/.setup-made-for" && -x "$VENV/bin/python" ]] || return 1
  [[ "$(cat "$VENV/.setup-made-for")" == "$(made_for "$python")" ]] || return 1
  "$VENV/bin/python" -m pip --version >/dev/null 2>&1
}

made_for() { printf '%s %s' "$ROOT" "$("$1" -c 'import sys; print(sys.version)')"; }

make_venv() {
  local python="$1"
  # The log and the lock stay: another run may be waiting on the lock.
  find "$VENV" -mindepth 1 -maxdepth 1 ! -name setup.log ! -name .setup-lock -exec rm -rf {} +
  "$python" -m venv "$VENV"
}

install_package() {
  local target=".[${1:-dafny,train}]"
  (cd "$ROOT" && "$VENV/bin/python" -m pip install -c constraints.txt -e "$target")
}

install_torch() {
  # First and alone: by far the largest part, and the one whose failure is worth naming.
  "$VENV/bin/python" -m pip install -c "$ROOT/constraints.txt" torch
}

write_stamps() {
  local python="$1" extras="$2"
  stamp_of "$python" "$extras" >"$(stamp_file "$extras")"
  # Whoever has the development tools has the rest too.
  stamp_of "$python" "" >"$(stamp_file "")"
}

# True if the package finds a Dafny of this version: 4, 2.3 or auto.
has_dafny() {
  local find='import sys; from proverrl.lang.dafny.verify.workers.toolchain import find_dafny_toolchain
find_dafny_toolchain(sys.argv[1])'
  "$VENV/bin/python" -c "$find" "$1" >/dev/null 2>&1
}

# What decides whether a Dafny 4 can be had, as far as it is known here.
dafny_4_sources() {
  printf 'tried with: %s\n' "${PROVERRL_DAFNY_PACKAGE:-}" "${PROVERRL_DAFNY_RELEASE:-}" \
    "$(type -aP dotnet || true)"
}

# True if nothing about Dafny is left to be done.
dafny_is_settled() {
  if [[ "$1" == dev ]] && ! has_dafny 2.3; then return 1; fi
  if [[ -n "${PROVERRL_DAFNY:-}" ]] && has_dafny auto; then return 0; fi
  if has_dafny 4; then return 0; fi
  # Without a network a Dafny 4 is looked for once.
  [[ "$(cat "$NO_DAFNY_4" 2>/dev/null)" == "$(dafny_4_sources)" ]] && has_dafny 2.3
}

get_dafny() {
  if [[ "$1" == dev ]] && ! has_dafny 2.3; then need_packages dafny; fi
  if dafny_is_settled "$1"; then return 0; fi
  if try_stage "getting Dafny 4" "$VENV/bin/python" -m proverrl.lang.dafny.install; then
    rm -f "$NO_DAFNY_4"
    return 0
  fi
  say "$(tail -n 1 "$LOG")"
  has_dafny 2.3 || need_packages dafny
  dafny_4_sources >"$NO_DAFNY_4"
}

say_what_judges() {
  if [[ -e "$NO_DAFNY_4" ]] && ! has_dafny 4; then
    say "Dafny 2.3 judges, and texts of Dafny 4 are not read. To try again:" \
      "$VENV/bin/python -m proverrl.lang.dafny.install"
  fi
}

lock_setup() {
  mkdir -p "$VENV"
  if ! command -v flock >/dev/null 2>&1; then return 0; fi
  exec 9>>"$VENV/.setup-lock"
  if flock -n 9; then return 0; fi
  say "another setup is running in this folder; waiting for it"
  flock -w "$LOCK_WAIT_SECONDS" 9 || fail "another setup held $VENV/.setup-lock for too long"
}

main() {
  local extras="${1:-}" python version missing=()
  case "$extras" in
    "" | dev) ;;
    *) fail "unknown argument '$extras'" "usage: bash scripts/setup.sh [dev]" ;;
  esac
  if ! python="$(find_python)"; then
    fail "no Python 3.11 or newer was found (${PROVERRL_PYTHON:-python3, python3.11 to python3.14})." \
      "Debian 12, Ubuntu 24.04:  sudo apt-get install -y python3 python3-venv" \
      "Ubuntu 22.04:             sudo apt-get install -y python3.11 python3.11-venv" \
      "Elsewhere: set PROVERRL_PYTHON to the Python to use."
  fi
  trap stop_ticker EXIT
  lock_setup
  version="$("$python" -c 'import platform; print(platform.python_version())')"
  mapfile -t missing < <(list_missing_packages "$python")
  if [[ ${#missing[@]} -eq 0 ]] && is_installed "$python" "$extras" && dafny_is_settled "$extras"; then
    say "everything is installed (Python $version)"
    say_what_judges
    return 0
  fi
  : >"$LOG"
  say "Python $version ($python); details go to .venv/setup.log"
  if [[ ${#missing[@]} -gt 0 ]]; then need_packages "${missing[@]}"; fi
  if ! is_installed "$python" "$extras"; then install_all "$python" "$extras"; fi
  get_dafny "$extras"
  say_what_judges
}

install_all() {
  local python="$1" extras="$2"
  if ! venv_is_usable "$python"; then
    run_stage "creating .venv" make_venv "$python" || fail "the virtual environment was not made"
    made_for "$python" >"$VENV/.setup-made-for"
  fi
  # While this file is there the environment may be half written; the next run makes a new one.
  : >"$INSTALLING"
  run_stage "installing $(grep '^torch==' "$ROOT/constraints.txt"), the largest part" install_torch ||
    fail "torch was not installed; run this command again to retry"
  run_stage "installing proverrl${extras:+ with $extras tools}" install_package "$extras" ||
    fail "the package was not installed; run this command again to retry"
  write_stamps "$python" "$extras"
  rm -f "$INSTALLING"
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then main "$@"; fi
