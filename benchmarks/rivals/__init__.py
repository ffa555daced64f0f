"""What the papers compare their attentions with, and how the attentions were first published."""
