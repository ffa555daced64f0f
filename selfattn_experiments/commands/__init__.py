"""The command `selfattn`: a module per verb, with its flags (add_flags) and what it does (main).

One folder however many verbs there are, because `selfattn VERB` is found by the name of its module.
"""
