"""The command `selfattn`: a module a verb, with its flags (add_flags) and what it does (main)."""
