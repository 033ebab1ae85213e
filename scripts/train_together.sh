#!/usr/bin/env bash
# Trains a formaliser and a critic of its statements in turns, each from where it was (after RL Tango,
# arXiv 2505.15034): the formaliser is paid by the verifier and, where that proves nothing, by the
# critic; the critic learns from what the formaliser then wrote, and from errors that are made where it
# made none, all certified by the verifier.
#
#   bash scripts/train_together.sh FORMALISER CRITIC OUT [ROUNDS]     two run folders, a new one, 2
#   CALLS=2000 TEXTS=200 MINUTES=3 bash scripts/train_together.sh ...
# CALLS are the formaliser's verifier calls in a round, TEXTS (50 or more) the training texts of which it
# then writes statements, MINUTES the critic's. The same command with the same values goes on after an
# interruption.
set -euo pipefail

if [ $# -lt 3 ]; then
  sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
formaliser=$1 critic=$2 out=$3 rounds=${4:-2}
calls=${CALLS:-2000} texts=${TEXTS:-200} minutes=${MINUTES:-3}
words=dafny/statements/train.jsonl
for run in "$formaliser" "$critic"; do
  [ -d "$run/policy" ] || { echo "$run is no finished run: it has no folder policy" >&2; exit 2; }
done
mkdir -p "$out"

for ((round = 1; round <= rounds; round++)); do
  wrote="$out/formaliser-$round" judged="$out/critic-$round" asked="$out/words-$round.jsonl"
  pairs="$out/pairs-$round.jsonl"
  [ -d "$wrote/policy" ] || proverrl train configs/formalize.toml --run "$wrote" \
    --set policy.path="$formaliser/policy" --set warm_start.steps=0 --set reward.critic="$critic/policy" \
    --set max_minutes=0 --set max_verifier_calls="$calls" --set evaluation.before=false
  # The file has its families in turn, so that any piece of it holds all of them; the last may be short.
  first=$(((round - 1) * texts % $(wc -l < "$words") + 1))
  sed -n "$first,$((first + texts - 1))p" "$words" > "$asked"
  if [ ! -f "$pairs" ]; then
    proverrl formalize "$asked" --run "$wrote" --samples 4 --name round --out "$out/kept-$round.jsonl"
    proverrl problems critiques "$asked" --statements "$wrote/evals/round.statements.jsonl" \
      --num $((2 * texts)) --out "$pairs"
  fi
  for ((each = 1; each <= round; each++)); do cat "$out/pairs-$each.jsonl"; done > "$out/all-$round.jsonl"
  # A few pairs are kept apart for the replay.
  [ -d "$judged/policy" ] || proverrl train configs/critic.toml --run "$judged" \
    --set policy.path="$critic/policy" --set warm_start.steps=0 --set problems.train="$out/all-$round.jsonl" \
    --set 'warm_start.references_per_level={1=5,2=5,3=5,4=5,5=5}' --set max_minutes="$minutes" --set evaluation.before=false
  formaliser=$wrote critic=$judged
done
