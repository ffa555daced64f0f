"""Systems x seeds: train, translate or tag, score and record them all; ``selfattn runs``.

`read.py` reads the YAML file into a `grid.Grid`; `run.py` is one run's folder and what is left to
do in it (`commands.py`, `record.py`); `session.py` is one call of the runner. `execution` holds
its machinery: `scheduler.py` works the runs off on the devices of `slots.py`, each command as a
`child.py`; `follow.py`, `estimate.py` and `screen.py` show how far they are; `lock.py` keeps a
second runner away. `slurm.py` writes scripts for a cluster.
"""
