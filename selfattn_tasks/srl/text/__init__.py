"""Raw text in, roles with their characters out."""
