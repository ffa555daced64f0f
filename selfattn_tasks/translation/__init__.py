"""Translation: from pairs of text files to fairseq's data, and from its output to scores.

``suspicions`` warns about text that looks wrong, ``split`` divides a corpus into train, valid and
test, ``vocabulary`` learns and applies SentencePiece, ``binarise`` runs fairseq-preprocess, and
``prepare`` does all of it. ``outputs`` reads translations, ``metrics`` scores them, and
``output_warnings`` warns about what spoils the scores.
"""
