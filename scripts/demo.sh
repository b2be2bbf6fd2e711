#!/usr/bin/env bash
# Builds tessera and starts a conversation: demo.sh [MODEL.gguf [flags of `tessera chat`]]
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
exec build/release/bin/tessera chat ${model:+-m "$model"} "${@:2}"
