#!/bin/sh
# Smoke test: run the main commands once on small data in a temporary folder.
#   sh scripts/smoke.sh .venv/bin/seqattn
set -eu
seqattn=$(realpath "$1")
config=$(realpath configs/squares.yaml)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$seqattn" train "$config" --set training.epochs=3 --set data.n_train=128 --quiet
printf 'sequence,step,x,y\na,1,-1,-1\na,2,-1,1\n' |
    "$seqattn" predict outputs/squares --input - --output next.csv
"$seqattn" plot-attention outputs/squares --output attention.svg
"$seqattn" compare "$config" --vary model.attention.score=dot,uniform --seeds 2 --name both \
    --set training.epochs=2 --set data.n_train=64 --quiet
"$seqattn" report outputs/squares
"$seqattn" report outputs/both
"$seqattn" doctor outputs/squares > findings.txt

test "$(wc -l < next.csv)" -eq 3
for file in attention.svg findings.txt outputs/squares/report.html outputs/both/report.html outputs/squares/loss_curve.png outputs/squares/summary.json \
    outputs/both/comparison.png outputs/both/dot/seed-24/summary.json; do
    test -s "$file"
done
echo "smoke: train, predict, plot-attention, compare, report and doctor work"
