"""Models and architectures; fairseq imports every module in this folder."""
