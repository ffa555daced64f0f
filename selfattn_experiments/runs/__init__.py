"""Systems x seeds: train, translate or tag, score and record them all; ``selfattn runs``.

`grid.py` reads the YAML file into a `Grid`; `run.py` is one run's folder, its commands and what is
left to do; `record.py` summarises; `session.py` is one call of the runner. `execution` holds its
machinery: `scheduler.py` works the runs off on the devices of `slots.py`, each command as a
`child.py`; `follow.py` and `screen.py` show how far they are; `lock.py` keeps a second runner away.
`slurm.py` writes scripts for a cluster.
"""
