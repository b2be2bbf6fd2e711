#!/usr/bin/env bash
# Makes data/tales.gguf again, the model that is part of the program, from nothing: text, vocabulary, weights, quantized.
#   train.sh [OUT.gguf]     default: build/bundled/tales.gguf; says whether it is the file in data/
# The same file on every machine with AVX-512, whatever the number of threads; another instruction set sums in another order.
# BUILD_DIR (default: build/release, built here) has our program, WORK_DIR (default: build/bundled) keeps text, checkpoint and loss curve.
set -euo pipefail
out=$(realpath -m "${1:-build/bundled/tales.gguf}")
. "$(dirname "$0")/../../scripts/common.sh"
need_program
work=${WORK_DIR:-build/bundled}
mkdir -p "$work" "$(dirname "$out")"
tessera=$BUILD_DIR/bin/tessera

data/tales/generate_stories.py --seed 1 --bytes 30000000 --out "$work/text.txt"
resume=()
[ ! -f "$work/checkpoint.gguf" ] || resume=(--resume)
"$tessera" train --text "$work/text.txt" -o "$work/tales-f32.gguf" --model-name tales \
  --tokenizer spm --vocab-size 2048 --arch llama --n-layers 5 --n-embd 160 --n-heads 5 --n-ff 448 --ctx 256 \
  --batch 16 --optimizer muon --lr 2e-2 --epochs 1 --seed 1 --eval-share 0.01 --eval-every 200 \
  --checkpoint "$work/checkpoint.gguf" --save-every 200 "${resume[@]}" \
  --loss-svg "$work/loss.svg" --log "$work/loss.jsonl"
"$tessera" quantize -q "$work/tales-f32.gguf" "$out" Q8_0
rm "$work/checkpoint.gguf"
if cmp -s "$out" data/tales.gguf; then
  echo "$out is data/tales.gguf"
else
  echo "$out differs from data/tales.gguf"
fi
