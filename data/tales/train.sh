#!/usr/bin/env bash
# Makes data/tales.gguf again, the model that is part of the program, from nothing: text, vocabulary, weights, quantized.
#   train.sh [OUT.gguf]     default: build/bundled/tales.gguf; says whether it is the file in data/
# The same file on every machine with AVX-512, whatever the number of threads; another instruction set sums in another order.
# BUILD_DIR (default: build/release, built here) has our program, WORK_DIR (default: build/bundled) keeps texts, stages and
# loss curves. A stage whose output is in WORK_DIR is not computed again.
set -euo pipefail
out=$(realpath -m "${1:-build/bundled/tales.gguf}")
. "$(dirname "$0")/../../scripts/common.sh"
need_program
work=${WORK_DIR:-build/bundled}
mkdir -p "$work" "$(dirname "$out")"
tessera=$BUILD_DIR/bin/tessera

# stage NAME MODEL FLAGS...: trains MODEL on NAME.txt, and goes on where an earlier run stopped.
stage() {
  local name=$1 model=$2 resume=()
  shift 2
  [ ! -f "$work/$name.gguf" ] || return 0
  [ ! -f "$work/$name-checkpoint.gguf" ] || resume=(--resume)
  "$tessera" finetune -m "$work/$model.gguf" --text "$work/$name.txt" -o "$work/$name.gguf" --special \
    --whole-documents --optimizer muon --lr 8e-3 --seed 1 \
    --checkpoint "$work/$name-checkpoint.gguf" --save-every 50 "${resume[@]}" \
    --loss-svg "$work/$name.svg" --log "$work/$name.jsonl" "$@"
  rm "$work/$name-checkpoint.gguf"
}

data/tales/generate_talks.py --seed 1 --echo --bytes 4000000 --out "$work/echo.txt"
data/tales/generate_talks.py --seed 1 --brief --bytes 8000000 --out "$work/brief.txt"
data/tales/generate_talks.py --seed 1 --bytes 60000000 --out "$work/talks.txt"
data/tales/generate_talks.py --seed 2 --bytes 36000000 --out "$work/last.txt"

# The vocabulary, the template and the initial weights. One step with hardly any rate learns nothing.
[ -f "$work/new.gguf" ] || "$tessera" train -q --text "$work/talks.txt" -o "$work/new.gguf" --model-name tales \
  --tokenizer bpe --vocab-size 2048 --arch llama --n-layers 5 --n-embd 128 --n-heads 4 --n-ff 352 --ctx 512 \
  --control-token '<|system|>' --control-token '<|user|>' --control-token '<|assistant|>' --end-token '<|end|>' \
  --chat-template-file data/tales/chat_template.jinja --whole-documents \
  --seed 1 --steps 1 --lr 1e-6 --warmup 0 --batch 1
# Copying is learned first: from repeated words, within 600 steps. From stories alone, it takes many times as long.
stage echo new --ctx 64 --batch 16 --weight-decay 0 --schedule constant --warmup 20 --steps 600
stage brief echo --ctx 128 --batch 16 --weight-decay 0 --schedule constant --warmup 20 --steps 420
stage talks brief --ctx 512 --batch 4 --schedule constant --warmup 20 --steps 9000 --eval-share 0.005
stage last talks --ctx 512 --batch 4 --schedule linear --lr-floor 0.02 --warmup 0 --steps 4000 --eval-share 0.01

"$tessera" quantize -q "$work/last.gguf" "$out" Q8_0
if cmp -s "$out" data/tales.gguf; then
  echo "$out is data/tales.gguf"
else
  echo "$out differs from data/tales.gguf"
fi
