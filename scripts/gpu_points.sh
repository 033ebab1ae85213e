#!/usr/bin/env bash
# What the scripts for a GPU share: sourced by them, with the arguments [FOLDER [POINT...]].
#
# A script sets `noun` and `usual_folder` before. Its points are the lines that begin with `point NAME`
# or `skip NAME`. PROVERRL names the command (.venv/bin/proverrl), and PYTHON the Python beside it.
set -euo pipefail

: "${noun:?}" "${usual_folder:?}"
names="$(sed -nE 's/^ *(point|skip|experiment) ([a-z0-9-]+) .*/\2/p' "$0" | sort -u | tr '\n' ' ')"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ "${1:-}" == -* ]]; then
  echo "usage: bash scripts/${0##*/} [FOLDER [${noun^^}...]]; the ${noun}s are: $names"
  [[ "$1" == --list || "$1" == --help || "$1" == -h ]] && exit 0 || exit 2
fi
for name in "${@:2}"; do
  [[ " $names" == *" $name "* ]] || { echo "no $noun is called $name; they are: $names" >&2; exit 2; }
done
out="${1:-$usual_folder}"
chosen=" ${*:2} "
proverrl="${PROVERRL:-.venv/bin/proverrl}"
python="${PYTHON:-.venv/bin/python}"
if ! command -v "$proverrl" >/dev/null || ! command -v "$python" >/dev/null; then
  echo "there is no $proverrl or no $python: run bash scripts/setup.sh, or set PROVERRL and PYTHON" >&2
  exit 2
fi
mkdir -p "$out"
rows=() failed=0

gpus="$("$python" -c 'import torch; print(torch.cuda.device_count())')" || exit 2
if [[ "$gpus" -eq 0 ]]; then
  echo "No GPU is seen by torch: every $noun runs on the CPU."
  export ACCELERATE_USE_CPU=true
fi

# One that is there and broken is said by the point that needs it.
packages=" "
for package in vllm peft; do
  if "$python" -c "import importlib.util as u; exit(u.find_spec('$package') is None)"; then packages+="$package "; fi
done
has() {
  [[ "$packages" == *" $1 "* ]]
}

is_chosen() {
  [[ "$chosen" == "  " || "$chosen" == *" $1 "* ]]
}

# point NAME COMMAND...: run it, and note what became of it with its seconds.
point() {
  local name="$1" started=$SECONDS status=0
  shift
  is_chosen "$name" || return 0
  printf '%-52s ' "$name"
  "$@" >"$out/$name.log" 2>&1 || status=$?
  local took=$((SECONDS - started))
  if [[ $status -eq 0 ]]; then
    rows+=("confirmed  $name  ${took} s")
    echo "confirmed, $took s"
  elif [[ $status -eq 124 ]]; then
    failed=1
    rows+=("cut off    $name  ${took} s  the same line goes on, or tries again")
    echo "cut off after $took s"
  else
    failed=1
    rows+=("FAILED     $name  ${took} s  status $status, see $out/$name.log")
    echo "FAILED with status $status: $out/$name.log"
  fi
}

skip() {
  is_chosen "$1" || return 0
  rows+=("skipped    $1  $2")
  printf '%-52s skipped: %s\n' "$1" "$2"
}

# end: the table of all points; the status says whether one failed.
end() {
  printf '\n%s\n' "Device: $("$python" -c 'import torch
print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU", torch.__version__, sep=", torch ")')"
  printf '%s\n' "${rows[@]}"
  exit "$failed"
}
