#!/usr/bin/env bash
# Experiments for a GPU that is at hand for some minutes at a time (docs/gpu.md), each below ten.
#
#   bash scripts/gpu_queue.sh [FOLDER [EXPERIMENT...]]     --list names the experiments
#   bash scripts/gpu_queue.sh --pack MODEL FOLDER          a folder in parts of at most 60 MiB, with their sums
#   bash scripts/gpu_queue.sh --unpack FOLDER MODEL        checks and joins them, or says which are missing
#
# The same line goes on where the last one ended: what has its rows in FOLDER/results.jsonl is skipped,
# and a training that was cut off is resumed. Variables, all of them optional:
#   MODEL                 a folder or a hub's id; that of configs/coder.toml
#   TRAIN, HELDOUT        files of problems for the curve
#   SETTINGS, CURVE       KEY=VALUE words for all experiments; for the curve alone (no warm start, no replay)
#   ENGINE                of the trainings: vllm where it is installed, or transformers
#   IN_FLIGHT, STEPS, MINUTES   completions that begin together; GRPO steps; where both pieces of the curve end
#   LIMIT, PART_MIB       seconds of an experiment (540), size of a part (60)
set -euo pipefail

# pack MODEL FOLDER
pack() {
  mkdir -p "$2"
  rm -f "$2"/part-* "$2/SHA256SUMS"
  tar -C "$1" --sort=name -chf - . | split -b "${PART_MIB:-60}M" -d -a 4 - "$2/part-"
  (cd "$2" && sha256sum part-* >unfinished && mv unfinished SHA256SUMS)
  echo "$(wc -l <"$2/SHA256SUMS") parts in $2; SHA256SUMS belongs to them"
}

# unpack FOLDER MODEL: nothing is written before every part is there as it was.
unpack() {
  local sum name bad=0 to="${2%/}"
  [[ ! -e "$to" ]] || { echo "$to is there already" >&2; return 2; }
  [[ -s "$1/SHA256SUMS" ]] || { echo "missing: SHA256SUMS" >&2; return 1; }
  while read -r sum name || [[ -n "$sum" ]]; do
    if [[ ! -e "$1/$name" ]]; then
      echo "missing: $name" >&2 && bad=1
    elif [[ "$(sha256sum <"$1/$name")" != "$sum  -" ]]; then
      echo "damaged: $name" >&2 && bad=1
    fi
  done <"$1/SHA256SUMS"
  [[ $bad -eq 0 ]] || { echo "bring these parts and repeat the line" >&2; return 1; }
  rm -rf "$to.unfinished"
  mkdir -p "$to.unfinished"
  if (cd "$1" && cut -c67- SHA256SUMS | xargs cat) | tar -C "$to.unfinished" --no-same-owner -xf -; then
    mv "$to.unfinished" "$to"
  else
    rm -rf "$to.unfinished"
    echo "SHA256SUMS is cut; bring it again and repeat the line" >&2
    return 1
  fi
}

if [[ "${1:-}" == --pack || "${1:-}" == --unpack ]]; then
  [[ $# -eq 3 && -d "$2" ]] || { echo "usage: bash scripts/gpu_queue.sh $1 FROM TO; FROM is a folder" >&2; exit 2; }
  "${1#--}" "$2" "$3"
  exit
fi

# Files are named from here.
for name in TRAIN HELDOUT MODEL; do
  if [[ -n "${!name:-}" && ($name != MODEL || -d "$MODEL") ]]; then printf -v "$name" '%s' "$(realpath "${!name}")"; fi
done
noun=experiment usual_folder=runs/gpu_queue
# shellcheck source=scripts/gpu_points.sh
source "$(dirname "$0")/gpu_points.sh"
model="${MODEL:-$(sed -nE 's/^path = "(.*)"$/\1/p' configs/coder.toml)}"
read -ra settings <<<"${SETTINGS:-}"
no_references='warm_start.references_per_level={} learner.replay_samples=0'
read -ra curve_settings <<<"${CURVE:-$no_references}"
read -ra in_flight <<<"${IN_FLIGHT:-8 64$([[ "$gpus" -eq 0 ]] || echo ' 512')}"
read -ra minutes <<<"${MINUTES:-7 14}"
engine="${ENGINE:-$(has vllm && echo vllm || echo transformers)}"

asked="$(printf '%s\n' "$model" "$engine" "${SETTINGS:-}" "${CURVE:-}" "${TRAIN:-}" "${HELDOUT:-}")"
if [[ -e "$out/asked" && "$(cat "$out/asked")" != "$asked" ]]; then
  echo "$out holds experiments with other variables (see $out/asked); name another folder" >&2
  exit 2
fi
echo "$asked" >"$out/asked"

is_finished() {
  grep -qsF "\"experiment\": \"$1\", " "$out/results.jsonl"
}

# experiment NAME COMMAND...: once.
experiment() {
  if is_finished "$1"; then
    skip "$1" "finished before"
  else
    point "$@"
  fi
}

# The first signal has a training finish its step and save.
limited() {
  timeout --foreground -k 55 "${LIMIT:-540}" "$@"
}

# tokens NAME ARGUMENT...: the speed of writing. A prompt is a problem of the curriculum.
tokens() {
  limited "$python" -m scripts.compare_engines configs/coder.toml --samples 1 --rounds 1 --prompts "${in_flight[@]}" \
    "${@:2}" --set policy.path="$model" --set policy.max_rows="${in_flight[-1]}" --set sampling.max_new_tokens=512 \
    "${settings[@]/#/--set=}" >"$out/$1.jsonl" && "$python" -m scripts.gpu_figures "$out" "$1" "$model"
}

# watch_gpu RUN FILE: GRPO steps so far, percent of the first GPU's time, MiB of its memory.
watch_gpu() {
  local steps
  command -v nvidia-smi >/dev/null || return 0
  while sleep 1 && kill -0 $$; do
    steps="$(grep -cs '"kind":"step"' "$1/metrics.jsonl" || true)"
    echo "${steps:-0}, $(nvidia-smi --id=0 --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits)"
  done >"$2"
}

# train NAME RUN ARGUMENT...: a training, or its next piece, and its figures.
train() {
  local run="$out/$2" watcher status=0
  rm -f "$out/$1.gpu"
  watch_gpu "$run" "$out/$1.gpu" &
  watcher=$!
  limited "$proverrl" train "${@:3}" || status=$?
  kill "$watcher" 2>/dev/null || true
  [[ $status -eq 0 ]] || return "$status"
  "$python" -m scripts.gpu_figures "$out" "$1" "$model" "$run"
}

coder=(coder policy.path="$model" policy.engine="$engine" loss.sampler_cap=2.0)
# The file has the values of a CPU.
[[ "$gpus" -eq 0 ]] || coder+=(policy.max_rows=512 learner.micro_batch_tokens=16384)
fresh=("${coder[@]}" evaluation.after=false evaluation.before=false grpo.steps="${STEPS:-8}" max_minutes=7)
curve=("${coder[@]}" problems.train="${TRAIN:-}" problems.valid="${HELDOUT:-}" problems.heldout="${HELDOUT:-}"
  sampling.max_new_tokens=512 evaluation.max_problems=64 max_minutes="${minutes[0]}" "${settings[@]}" "${curve_settings[@]}")
cache=(--set vllm.kv_cache_gb="$([[ "$gpus" -eq 0 ]] && echo 1 || echo 16)")

experiment tokens-transformers tokens tokens-transformers --engine transformers
if has vllm; then
  experiment tokens-vllm tokens tokens-vllm --engine vllm "${cache[@]}"
  experiment tokens-vllm-compiled tokens tokens-vllm-compiled --engine vllm "${cache[@]}" --set vllm.eager=false
else
  skip tokens-vllm "not installed (extra vllm)"
fi
experiment training train training training "${fresh[@]}" "${settings[@]}" run="$out/training"
if [[ -n "${TRAIN:-}" && -n "${HELDOUT:-}" ]]; then
  experiment curve-1 train curve-1 curve "${curve[@]}" run="$out/curve"
  if is_finished curve-1; then
    experiment curve-2 train curve-2 curve --resume "$out/curve" max_minutes="${minutes[1]}"
  else
    skip curve-2 "goes on from curve-1"
  fi
else
  skip curve-1 "set TRAIN and HELDOUT to files of problems"
fi

if [[ -s "$out/results.jsonl" ]]; then "$python" -m scripts.gpu_figures "$out"; fi
end
