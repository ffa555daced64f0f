"""What pyproject.toml cannot say: what a clone installs.

This tree has two distributions: `selfattn`, the package of that name alone, is built here, and
`selfattn-fairseq` in distributions/selfattn-fairseq, whose setup.py says why there.

`pip install -e .` is for those who work in the clone. It makes all of it importable, and installs
the commands, so that one call and one entry in `pip list` stand for the clone.
"""

import sys

from setuptools import find_packages, setup

FLOORS = ["selfattn"]
PLUGIN: "list[str]" = []
COMMANDS: "list[str]" = []

if "editable_wheel" in sys.argv:
    FLOORS += ["selfattn_tasks", "selfattn_experiments"]
    PLUGIN = find_packages(include=["plugin", "plugin.*"])
    COMMANDS = [
        "selfattn = selfattn_experiments.__main__:main",
        "selfattn-user-dir = selfattn_experiments.user_dir:main",
    ]

setup(
    packages=[
        *find_packages(include=[pattern for name in FLOORS for pattern in (name, f"{name}.*")]),
        *("selfattn_fairseq" + name.removeprefix("plugin") for name in PLUGIN),
    ],
    package_dir={"selfattn_fairseq": "plugin"} if PLUGIN else {},
    entry_points={"console_scripts": COMMANDS},
)
