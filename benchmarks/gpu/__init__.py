"""The stages of ``benchmarks/gpu.sh``: what only a GPU can answer, each in at most eight minutes."""
