"""What pyproject.toml cannot say: `plugin/` is installed under the name selfattn_fairseq."""

from setuptools import find_packages, setup

CORE = find_packages(include=["selfattn", "selfattn.*"])
PLUGIN = [
    "selfattn_fairseq" + name.removeprefix("plugin")
    for name in find_packages(include=["plugin", "plugin.*"])
]

setup(packages=CORE + PLUGIN, package_dir={"selfattn_fairseq": "plugin"})
