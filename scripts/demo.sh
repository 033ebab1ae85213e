#!/usr/bin/env bash
# Trains and evaluates a small prover on real Dafny, from a bare machine to an HTML report, and one on
# real Lean where there is a Lean.
#
#   bash scripts/demo.sh                        run it; run it again to see the table again
#   bash scripts/demo.sh --set seed=1           arguments are passed to `proverrl train`
#   PROVERRL_DEMO_RUN=runs/other bash scripts/demo.sh    another run folder
# An interrupted demo resumes from its last checkpoint when it is started again.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
run="${PROVERRL_DEMO_RUN:-runs/demo}"

step() { printf '\n== %s\n' "$*"; }

step "1/5 set-up"
bash scripts/setup.sh

step "2/5 what is installed: proverrl doctor"
found="$(.venv/bin/proverrl doctor)" || { printf '%s\n' "$found"; exit 1; }
printf '%s\n' "$found"

step "3/5 training and evaluation: proverrl train configs/demo.toml --run $run $*"
.venv/bin/proverrl train configs/demo.toml --run "$run" "$@"

step "4/5 report: proverrl report $run"
.venv/bin/proverrl report "$run"

step "5/5 the same on Lean: proverrl train configs/lean.toml --run $run-lean $*"
if grep -Eq '^ok +Lean {2,}' <<<"$found"; then
  .venv/bin/proverrl train configs/lean.toml --run "$run-lean" "$@"
  .venv/bin/proverrl report "$run-lean"
else
  echo "No Lean was found, so this part is left out. bash scripts/setup_lean.sh installs one; then run this again."
fi
