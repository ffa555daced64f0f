"""What pyproject.toml cannot say: `plugin/` is installed under the name selfattn_fairseq."""

from setuptools import find_packages, setup

FLOORS = ("selfattn", "selfattn_tasks", "selfattn_experiments")
CORE = find_packages(include=[pattern for name in FLOORS for pattern in (name, f"{name}.*")])
PLUGIN = [
    "selfattn_fairseq" + name.removeprefix("plugin")
    for name in find_packages(include=["plugin", "plugin.*"])
]

setup(packages=CORE + PLUGIN, package_dir={"selfattn_fairseq": "plugin"})
