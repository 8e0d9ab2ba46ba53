#!/usr/bin/env bash
# Trains with the settings of the paper: bash run.sh [python]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PYTHON=${1:-python}
export TOKENIZERS_PARALLELISM=false

BATCH=4
EFFECTIVE=20

"$PYTHON" "$here/shell_launched.py" \
  --batch_size "$BATCH" \
  --effective_batch "$EFFECTIVE" \
  --lr 3e-4
