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

data/tales/generate_talks.py --seed 1 --bytes 36500000 --out "$work/text.txt"
resume=()
[ ! -f "$work/checkpoint.gguf" ] || resume=(--resume)
"$tessera" train --text "$work/text.txt" -o "$work/tales-f32.gguf" --model-name tales \
  --tokenizer bpe --vocab-size 2560 --arch llama --n-layers 6 --n-embd 192 --n-heads 6 --n-ff 512 --ctx 1024 \
  --control-token '<|system|>' --control-token '<|user|>' --control-token '<|assistant|>' --end-token '<|end|>' \
  --chat-template-file data/tales/chat_template.jinja --whole-documents \
  --batch 4 --optimizer muon --lr 8e-3 --epochs 1 --seed 1 --eval-share 0.005 --eval-every 500 \
  --checkpoint "$work/checkpoint.gguf" --save-every 100 "${resume[@]}" \
  --loss-svg "$work/loss.svg" --log "$work/loss.jsonl"
"$tessera" quantize -q "$work/tales-f32.gguf" "$out" Q8_0
rm "$work/checkpoint.gguf"
if cmp -s "$out" data/tales.gguf; then
  echo "$out is data/tales.gguf"
else
  echo "$out differs from data/tales.gguf"
fi
