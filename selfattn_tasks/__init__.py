"""Tasks without a framework: file formats, vocabularies, decoders and official scores."""
