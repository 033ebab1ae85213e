#!/usr/bin/env bash
# What a first run on a GPU machine has to confirm (docs/gpu.md), in about a quarter of an hour.
#
#   bash scripts/setup.sh && bash scripts/first_gpu_run.sh [FOLDER [POINT...]]
#
# Each point has a log of its own in FOLDER (runs/first_gpu); all of them run unless some are named.
# A training that learned from nothing has failed, as has a resumed one that began anew. At the end
# stands a table of confirmed, failed and skipped points; the exit status is 1 if a point failed.
# Without a GPU the same points run on the CPU at the same small size, which confirms the script
# alone.
# --list names the points. PROVERRL names the command (.venv/bin/proverrl), and PYTHON the Python beside it.
set -euo pipefail

noun=point usual_folder=runs/first_gpu
# shellcheck source=scripts/gpu_points.sh
source "$(dirname "$0")/gpu_points.sh"

# Of the easiest problems, so that a few steps have groups to learn from.
settings=(problems.train="$out/level1.jsonl" 'warm_start.references_per_level={1=200}' warm_start.steps=120
  grpo.steps=3 grpo.groups_per_step=8 grpo.groups_per_draw=8 max_minutes=5
  evaluation.before=false evaluation.max_problems=16 evaluation.samples=2 'evaluation.ks=[1]' pool.workers=2)

# check_learned RUN: a step of it must have moved the policy.
check_learned() {
  "$python" - "$1/metrics.jsonl" <<'PYTHON'
import json, sys
steps = [row for row in map(json.loads, open(sys.argv[1])) if row["kind"] == "step"]
moved = [row["step"] for row in steps if (row.get("grad_norm") or 0) > 0]
print(f"the policy moved in steps {moved} of {[row['step'] for row in steps]}")
sys.exit(not moved)
PYTHON
}

# train NAME COMMAND...: a short run, which must learn from something.
train() {
  local run="$out/$1"
  shift
  rm -rf "$run"
  "$@" run="$run" && check_learned "$run"
}

# resume: the same, killed after its first checkpoint; what was done before must not be done again.
resume() {
  local run="$out/resume" process row='"kind":"step","step":1,' before
  rm -rf "$run"
  "${single[@]}" run="$run" grpo.steps=6 checkpoint_every=1 &
  process=$!
  until [[ -e "$run/checkpoints/step_000001" ]]; do
    kill -0 "$process" || return 1
    sleep 0.1
  done
  kill -KILL "$process"
  wait "$process" || true
  [[ ! -e "$run/policy" ]] || { echo "it had ended before it was killed"; return 1; }
  before="$(grep "$row" "$run/metrics.jsonl")" || return 1
  "$proverrl" train --resume "$run" || return 1
  [[ "$(grep "$row" "$run/metrics.jsonl")" == "$before" ]] || { echo "it began anew"; return 1; }
  check_learned "$run"
}

single=("$proverrl" train demo "${settings[@]}")
launch=("$python" -m torch.distributed.run --nproc_per_node 2 -m proverrl train demo "${settings[@]}")
big=(policy.hidden_size=256 policy.num_heads=4 policy.num_layers=8)

point doctor "$proverrl" doctor
point plan "$proverrl" plan demo
"$proverrl" problems convert dafny/curriculum/train.jsonl --levels 1 --out "$out/level1.jsonl" >/dev/null

point float32 train float32 "${single[@]}"
point bfloat16 train bfloat16 "${single[@]}" learner.precision=bf16
point bfloat16-checkpointing train bfloat16-checkpointing "${single[@]}" learner.precision=bf16 \
  learner.gradient_checkpointing=true learner.micro_batch_tokens=2048 "${big[@]}"
point not-in-order train not-in-order "${single[@]}" grpo.in_order=false

if has vllm; then
  point vllm train vllm "${single[@]}" policy.engine=vllm policy.hidden_size=128 vllm.kv_cache_gb=1
  point vllm-bfloat16 train vllm-bfloat16 "${single[@]}" policy.engine=vllm policy.hidden_size=128 \
    vllm.kv_cache_gb=1 vllm.dtype=bfloat16 learner.precision=bf16
  if [[ "$gpus" -gt 0 ]]; then
    # The cache that the plan leaves, which goes to the learner while it updates.
    point vllm-sleep train vllm-sleep "${single[@]}" policy.engine=vllm policy.hidden_size=128 \
      vllm.dtype=bfloat16 learner.precision=bf16 vllm.sleep=true grpo.max_staleness=0
  fi
else
  skip vllm "not installed (extra vllm)"
fi
if has peft; then
  # Adapters on the weights that the points float32 and vllm leave.
  adapters=(policy.lora.rank=8 warm_start.references_per_level={})
  point lora train lora "${single[@]}" policy.path="$out/float32/policy" "${adapters[@]}"
  if has vllm; then
    point vllm-lora train vllm-lora "${single[@]}" policy.path="$out/vllm/policy" policy.engine=vllm \
      vllm.kv_cache_gb=1 "${adapters[@]}"
  else
    skip vllm-lora "not installed (extra vllm)"
  fi
else
  skip lora "not installed (extra lora)"
  skip vllm-lora "not installed (extra lora)"
fi
if [[ "$gpus" -ge 2 || "$gpus" -eq 0 ]]; then
  point two-processes train two-processes "${launch[@]}"
  point two-processes-fsdp2 train two-processes-fsdp2 "${launch[@]}" learner.shard=fsdp2 learner.optimizer=adamw \
    learner.learning_rate=3e-4
  if has vllm; then
    point two-processes-vllm train two-processes-vllm "${launch[@]}" policy.engine=vllm policy.hidden_size=128 \
      vllm.kv_cache_gb=1
  fi
else
  skip two-processes "one GPU"
fi
point resume resume
if [[ "$gpus" -gt 0 ]]; then
  point memory "$python" scripts/measure_memory.py
else
  skip memory "no GPU"
fi
point attention "$python" -m scripts.measure_attention

end
