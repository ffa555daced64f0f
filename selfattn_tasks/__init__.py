"""What a task is, without a framework: files in, vocabularies, decoders, official scores."""
