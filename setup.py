"""What pyproject.toml cannot say: what a clone installs.

This tree has two distributions: `selfattn`, the package of that name alone, is built here, and
`selfattn-fairseq` in distributions/selfattn-fairseq, whose setup.py says why there.

`pip install -e .` is for those who work in the clone. It makes all of it importable, and installs
the commands, so that one call and one entry in `pip list` stand for the clone.
"""

import shutil
import sys

from setuptools import find_packages, setup

# pip builds in the clone, and setuptools adds to what the last build left: modules gone since then.
shutil.rmtree("build/lib", ignore_errors=True)

if "editable_wheel" in sys.argv:
    plugin = find_packages(include=["plugin", "plugin.*"])
    setup(
        packages=[
            *find_packages(include=["selfattn*"]),
            *("selfattn_fairseq" + name.removeprefix("plugin") for name in plugin),
        ],
        package_dir={"selfattn_fairseq": "plugin"},
        entry_points={
            "console_scripts": [
                "selfattn = selfattn_experiments.__main__:main",
                "selfattn-user-dir = selfattn_experiments.user_dir:main",
            ]
        },
    )
else:
    setup(packages=find_packages(include=["selfattn", "selfattn.*"]))
