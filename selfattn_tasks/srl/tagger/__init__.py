"""The tagger without fairseq: its network, its checkpoints, and how it labels sentences."""
