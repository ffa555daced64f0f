"""The stages of ``benchmarks/gpu.sh``: what only a GPU can answer, in eight minutes each."""
