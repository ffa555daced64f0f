"""The Triton kernels of MTSA compiled ahead for a Hopper GPU that need not be there."""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.triton_ahead import TOLERATED

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)
REPORT = "benchmarks.triton_mtsa"


@pytest.fixture(scope="module")
def compile_ahead(run_cli, tmp_path_factory):
    """Runs the report in a process of its own (here the interpreter is on) with an empty cache."""
    cache = tmp_path_factory.mktemp("triton")

    def run(*args):
        return run_cli(["-m", REPORT, *args], TRITON_CACHE_DIR=str(cache))

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "kernels", "variants"),
    [
        ("64", ["forward", "query", "key"], ["plain"]),
        ("64", ["forward", "query"], ["both"]),
        ("128", ["key"], ["plain"]),
    ],
)
def test_little_spills_and_tensor_cores_are_used(compile_ahead, width, kernels, variants):
    args = ("--dtype", "bf16", "--width", width, "--kernel", *kernels, "--variant", *variants)
    done = compile_ahead(*args).ok()
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == [kernel for kernel in kernels for _ in variants]
    for row in rows:
        registers, spilled, shared, wgmma = map(int, row[-4:])
        assert 0 < registers <= 255, row
        assert spilled <= (TOLERATED if row[0] == "key" else 0), row
        assert shared <= 227 * 1024, row
        assert wgmma > 0, row


def test_an_ampere_gpu_gets_its_own_instructions(compile_ahead):
    """Not wgmma, which the test above finds on a Hopper GPU."""
    args = ("--width", "16", "--dtype", "bf16", "--kernel", "forward", "--variant", "plain")
    done = compile_ahead("--capability", "80", *args).ok()
    assert done.stdout.split()[-1] == "0"


SMALL = """
from benchmarks import triton_mtsa as ahead
from selfattn.ops.mtsa.fused import configs
choose = configs.choose
configs.choose = lambda *given: configs.small(choose(*given))
for job in ahead.jobs(["query", "key"], ["bf16"], [64], ["plain"]):
    print(ahead.compiled(job, 86).shared)
"""


@pytest.mark.slow
def test_small_tiles_fit_the_shared_memory_of_small_gpus(run_cli, tmp_path):
    """The kernels that need the most, of the dtype and width that are used most."""
    done = run_cli(["-c", SMALL], TRITON_CACHE_DIR=str(tmp_path), fresh=False).ok()
    sizes = [int(shared) for shared in done.stdout.split()]
    assert len(sizes) == 2 and all(0 < size <= 99 * 1024 for size in sizes), done.stdout


# A driver that only names its GPU, and launches that are only written down.
DRIVER = """
import torch, triton, warnings
warnings.filterwarnings("error", message=".*FP_FUSION")
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel
class Driver:
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device: 0)
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
triton.runtime.driver.set_active(Driver())
launches = []
def write_down(kernel):
    def run(x, y, z, stream, function, metadata, launch_metadata, enter, leave, *values):
        launches.append((kernel, (x, y, z), values))
    return run
CompiledKernel._init_handles = lambda self: None
CompiledKernel.launch_metadata = lambda self, *given: None
CompiledKernel.function = CompiledKernel.packed_metadata = None
CompiledKernel.run = property(write_down)
from selfattn.masks import PositionalMask
"""
LAUNCH = f"""{DRIVER}
from selfattn.ops.mtsa.fused import launch
x = [torch.zeros(2, 40, 2, 16, dtype=torch.bfloat16).transpose(1, 2) for _ in range(4)]
padding, seed = torch.zeros(2, 40, dtype=torch.bool), torch.tensor([1])
masks = PositionalMask("forward"), PositionalMask("backward", window=5)
call = launch.Triton(masks, "logsigmoid", 0.3, True)
inputs = (*x, None, padding, seed)
call.backward(x[2], inputs, call.forward(inputs))
for kernel, _, _ in launches:
    print(kernel.name, kernel.asm["ttir"].count("tt.dot"))
"""


@pytest.mark.slow
def test_every_launch_compiles_with_its_own_arguments(run_cli, tmp_path):
    """What the interpreter does not see: types of the arguments, and Triton's own compiler.

    It must not make matrix products, which are tf32, of the sums of exact kernels.
    """
    done = run_cli(["-c", LAUNCH], TRITON_CACHE_DIR=str(tmp_path), fresh=False).ok()
    products = dict(line.split() for line in done.stdout.splitlines())
    forward = ["bounds", "shift", "weights", "forward", "exact_forward"]
    backward = ["query", "key", "exact_query", "exact_key"]
    assert list(products) == [f"{name}_kernel" for name in forward + backward]
    for name, count in products.items():
        assert (count != "0") == (name.split("_")[0] in ("forward", "query", "key")), name


AGAIN = f"""{DRIVER}
from selfattn.ops.common import fused
from selfattn.ops.mtsa.fused import launch, prepare
def launched(v, s, warps=4):
    "Kernels, grids, numbers, where the inputs are; and whether pointers are given as addresses."
    inputs = (v, v, v, s, None, None, torch.tensor([1]))
    call = launch.Triton((PositionalMask("forward"),) * v.shape[1], "identity", 0.1, True)
    arguments = call._arguments(inputs, call.room(inputs))
    launches.clear()
    for kernel in (prepare.shift_kernel, prepare.weights_kernel):
        arguments.launch(kernel, 7, num_warps=warps)
    found, direct = [], set()
    for kernel, grid, values in launches:
        named = dict(zip(kernel.src.fn.arg_names, values, strict=True))
        for name in ("v_ptr", "s_ptr", "seed_ptr", "shift_ptr", "e_ptr", "u_ptr"):
            pointer = named.pop(name, 0)
            direct.add(isinstance(pointer, int))
            if name in ("v_ptr", "s_ptr"):
                named[name] = pointer if isinstance(pointer, int) else pointer.data_ptr()
        found.append((kernel.hash, grid, named))
    return found, direct
x = torch.zeros(2, 2, 16, 24, dtype=torch.bfloat16)
plain = x[..., :16].contiguous()
kinds = {{
    "plain": (plain, plain),
    "longer": (x.new_zeros(3, 2, 40, 16),) * 2,
    "warps": (plain, plain, 8),
    "scores": (plain, plain.float()),
    "strides": (x[..., :16],) * 2,
    "address": (x.flatten()[1:][: plain.numel()].view_as(plain),) * 2,
}}
for name in (*kinds, *kinds):
    found, direct = launched(*kinds[name])
    known = dict(fused._COMPILED)
    fused._COMPILED.clear()
    expected, _ = launched(*kinds[name])
    fused._COMPILED.update(known)
    print(name, found == expected, direct)
"""


@pytest.mark.slow
def test_a_compiled_kernel_is_launched_as_triton_would(run_cli, tmp_path):
    """Without Triton's look at the arguments, of which only usual ones do without it."""
    done = run_cli(["-c", AGAIN], TRITON_CACHE_DIR=str(tmp_path), fresh=False).ok()
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[1] for row in rows] == ["True"] * 12, done.stdout
    direct = [row[0] for row in rows if row[2] == "{True}"]
    assert direct == ["longer", "plain", "longer", "warps", "scores"], done.stdout


DISA = f"""{DRIVER}
from selfattn.ops.disa.fused import kernels, launch
padding, seed = torch.zeros(2, 48, dtype=torch.bool), torch.tensor([1])
for length, window, p in ((48, 1, 0.25), (47, 16, 0.5), (1, None, 0.3)):
    x = [torch.zeros(2, length, 64, dtype=torch.bfloat16) for _ in range(3)]
    masks = PositionalMask("forward", window=window), PositionalMask("backward")
    call = launch.Triton(masks, 5.0, p, True)
    inputs = (*x, None, padding[:, :length], None, seed)
    call.backward(x[0], inputs, call.forward(inputs))
for kernel in (kernels.forward_kernel, kernels.key_kernel):
    print(len(kernel.device_caches[0][0]))
"""


@pytest.mark.slow
def test_disa_is_compiled_once_for_all_lengths_masks_and_dropout(run_cli, tmp_path):
    done = run_cli(["-c", DISA], TRITON_CACHE_DIR=str(tmp_path), fresh=False).ok()
    assert done.stdout.split()[-2:] == ["1", "1"], done.stdout
