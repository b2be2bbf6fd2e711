#!/usr/bin/env bash
# Regenerates tests/data/story.gguf and tests/data/stories.txt, the model and the text of the tests.
#   train_test_model.sh [OUT_DIR]     default: build/test_model; prints whether its files equal those in tests/data
# The model is the same file on every machine with AVX-512, for any number of threads. Other instruction sets sum in
# another order. BUILD_DIR is the folder with the program (default: build/release, built here).
set -euo pipefail
out=$(realpath -m "${1:-build/test_model}")
. "$(dirname "$0")/common.sh"
need_program
mkdir -p "$out"

# The text of the tests is not part of the training text.
data/tales/generate_stories.py --seed 2 --bytes 60000 --separator "" --out "$out/stories.txt"
data/tales/generate_stories.py --seed 1 --bytes 5000000 --out "$out/training.txt"
"$BUILD_DIR/bin/tessera" train --text "$out/training.txt" -o "$out/trained.gguf" --model-name story \
  --tokenizer spm --vocab-size 512 --arch llama --n-layers 5 --n-embd 64 --n-heads 8 --n-heads-kv 4 --n-ff 172 \
  --untied --ctx 256 --batch 2 --optimizer adamw --lr 1e-2 --weight-decay 0.01 --epochs 1 --seed 1 \
  --log "$out/loss.jsonl"
# Training with windows of 256 tokens gives the best model in a minute. The tests use contexts of up to 2048 tokens, so
# the file is changed to allow them.
python3 - "$out/trained.gguf" "$out/story.gguf" <<'EOF'
import pathlib
import struct
import sys

key = b"llama.context_length" + struct.pack("<I", 4)  # 4: the type u32
before, after = (key + struct.pack("<I", n) for n in (256, 2048))
model = pathlib.Path(sys.argv[1]).read_bytes()
if model.count(before) != 1:
    sys.exit("no llama.context_length of 256")
pathlib.Path(sys.argv[2]).write_bytes(model.replace(before, after))
EOF
for name in stories.txt story.gguf; do
  if cmp -s "$out/$name" "tests/data/$name"; then
    echo "$out/$name is tests/data/$name"
  else
    echo "$out/$name differs from tests/data/$name"
  fi
done
