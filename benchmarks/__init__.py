"""Time and memory of attentions and their rivals, as ratios to multi-head attention.

Each method runs in a process of its own, together with the reference it is compared with: both do
the same work in turns, so that a busy machine slows both (``timing``). Peak memory is measured in
another fresh process (``memory``). No number is reported for a method whose results are wrong
(``checks``). The commands are ``scripts/bench_attention.py`` and ``scripts/bench_training.py``.
"""
