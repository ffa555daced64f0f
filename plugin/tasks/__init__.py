"""Tasks; fairseq imports every module in this folder."""
