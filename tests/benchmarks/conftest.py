"""What the tests of benchmarks/gpu share."""

import json

import pytest

from benchmarks.gpu import __main__ as command


@pytest.fixture
def interpreter(device):
    """Dry runs of the kernels need it."""
    pytest.importorskip("triton")
    if device.type == "cuda":
        pytest.skip("--device cuda turns Triton's interpreter off")


def dry(stage, folder):
    command.main([stage, str(folder), "--device", "cpu"])
    return json.loads((folder / f"{stage}.json").read_text())
