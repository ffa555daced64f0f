"""Fixes that let fairseq 0.12 run on today's torch and numpy, and fail in one clear sentence.

fairseq imports ``--user-dir`` while it builds its argument parser: before it reads a checkpoint,
before it wraps a model for several processes, and in each worker process at the top of main. So
everything here is in time. Each module applies its fixes when it is imported.

There are many modules because each fixes one kind of fault, is a row of docs/fairseq.md, and goes
when fairseq no longer has that fault.
"""
