"""The translation experiment of the MTSA paper (section 4.4): its data, its scores, its table.

``sources`` says which archives the data are in, ``prepare`` makes a fairseq data-bin of them,
``bleu`` computes BLEU in the ways that the paper may have meant, ``runs`` reads what was trained
and ``table6`` prints it beside the published numbers.
"""
