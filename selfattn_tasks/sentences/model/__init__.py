"""The model of a checkpoint without fairseq: network, state, prediction, what it looks at."""
