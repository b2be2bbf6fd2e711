#!/usr/bin/env bash
# Builds tessera and generates text with a model: demo.sh [MODEL.gguf [flags of `tessera run`]]
# The model is the argument, else TESSERA_MODEL, else the bundled model.
set -euo pipefail
model=${1:-${TESSERA_MODEL:-}}
[ -z "$model" ] || model=$(realpath "$model")
. "$(dirname "$0")/common.sh"
if [ -n "$model" ] && [ ! -f "$model" ]; then
  echo "error: no model at $model; give one: scripts/demo.sh MODEL.gguf" >&2
  exit 1
fi
install_packages scripts/packages.txt
build release tessera
if [ $# -gt 1 ]; then
  exec build/release/bin/tessera run -m "$model" "${@:2}"
fi
exec build/release/bin/tessera run ${model:+-m "$model"} -p "Once upon a time" -n 200 --seed 1 --temp 0.7 --echo
