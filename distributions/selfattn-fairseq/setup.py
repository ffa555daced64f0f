"""selfattn-fairseq: the tasks, the fairseq plugin, the experiments and the command `selfattn`.

The second distribution of this tree; the root has the first, `selfattn`. Its folders lie at the
root, and the links beside this file bring them here, because setuptools takes no file from above a
pyproject.toml. So each tool works as it stands (`pip wheel`, `python -m build`), and an sdist holds
the files themselves. The alternative is a script that copies the tree and writes a pyproject.toml
for each distribution, as flash-linear-attention has it: more to keep right, and a build at the root
would give another wheel than the released one.
"""

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup

# A link to selfattn/__init__.py: one version, and each release fits exactly one of the other.
FOUND = re.search(r'^__version__ = "(.+)"$', Path("version.py").read_text("utf-8"), re.MULTILINE)
assert FOUND is not None
VERSION = FOUND[1]

# As in the root's setup.py: nothing of an earlier build.
shutil.rmtree("build/lib", ignore_errors=True)

setup(
    version=VERSION,
    # `plugin` would be a poor name among all installed packages.
    package_dir={"selfattn_fairseq": "plugin"},
    packages=[
        *find_packages(include=["selfattn_*"]),
        *(
            "selfattn_fairseq" + name.removeprefix("plugin")
            for name in find_packages(include=["plugin", "plugin.*"])
        ),
    ],
    install_requires=[
        f"selfattn=={VERSION}",
        "matplotlib",
        "PyYAML",
        "sacrebleu>=2.4",
        "scipy",
        "sentencepiece",
        "seqeval",
        "tabulate",
        "tqdm",
    ],
)
