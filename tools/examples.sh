#!/bin/sh
# Writes examples/*.ir again. Needs tools/requirements.txt (PYTHON names the interpreter that has it).
set -eu
cd "$(dirname "$0")/.."
dump() { name=$1; shift; "${PYTHON:-python3}" tools/dump_hlo.py "$@" -o "examples/$name.ir"; }
dump mlp mlp --layers 2 --hidden 128 --batch 64
dump gpt gpt --layers 2
dump gpt_remat gpt --layers 2 --remat
dump gpt_scan gpt --layers 4 --loop scan --tied
dump llama llama --layers 2 --kv-heads 4 --ffn 192
dump moe moe --layers 1
dump gpt2_small gpt --layers 12 --hidden 768 --heads 12 --seq 1024 --vocab 50304 --dtype bf16 --loop scan
