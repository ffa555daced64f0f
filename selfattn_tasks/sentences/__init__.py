"""Sentences, pairs of them and candidates: files in, prepared folders, folds, targets, scores.

``formats.reading`` finds out what a file is and reads it; ``tokens`` makes words of texts;
``prepare`` writes the folder that training reads, and ``folder`` reads it again. ``model``
applies a checkpoint without fairseq.
"""
