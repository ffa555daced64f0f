"""Make .venv in this clone and install the pinned packages into it; `make` calls this first.

    python3.11 scripts/setup_env.py                  # what the demo needs
    python3.11 scripts/setup_env.py base dev docs    # and what tests, checks and documentation need

Standard library only, and nothing newer than Python 3.6 can read, so that an old Python gets a
sentence and not a syntax error. Each finished step is noted in .venv/.selfattn/state.json: a second
run has nothing to do, and one after an interruption repeats the step that was cut short. It prints
its progress itself, because tqdm is among the packages that it installs.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from _setup_checks import SetupError, check_compiler, check_disk, check_python, check_venv_module

ROOT = Path(__file__).resolve().parent.parent
NEEDED_MB = 2500  # 1,600 MB installed, the rest for what pip unpacks and builds on the way
CUDA_MB = 9000  # the same with the CUDA packages that the public registry's torch brings
# The step that keeps a compiler busy for a minute or two: the steps after it install meanwhile.
COMPILED = "fairseq"
# Groups beside base, each a file in requirements/.
EXTRAS = {"dev": "tests and checks", "docs": "documentation tools"}
# Settings of the caller that would send packages, or Python itself, somewhere else.
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "VIRTUAL_ENV")
NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Max retries exceeded|Read timed out|ConnectTimeout"
    r"|ProxyError|Connection refused|Temporary failure in name resolution"
)


class Step(NamedTuple):
    """One pip call: its name in the note, its title on screen, pip's arguments and their files."""

    name: str
    title: str
    arguments: "list[str]"
    files: "list[Path]"

    def fingerprint(self) -> str:
        """A hash over the arguments and the files: where it differs, the step is due again."""
        digest = hashlib.sha256(repr(self.arguments).encode())
        for path in self.files:
            digest.update(path.read_bytes())
        return digest.hexdigest()


def plan(groups: "list[str]", torch_spec: str) -> "list[Step]":
    """The pip calls for these groups, in order."""
    folder = ROOT / "requirements"
    build, base, constraints = (folder / f"{n}.txt" for n in ("build", "base", "constraints"))
    pinned = ["-c", str(constraints)]
    # Old source packages (seqeval) are only built in the new way when asked.
    from_source = ["--no-build-isolation", "--use-pep517"]
    fairseq = ["--no-deps", "--require-hashes", *from_source, "-r", str(folder / "fairseq.txt")]
    torch = [torch_spec, "-r", str(build), *pinned]
    others = [*from_source, "-r", str(base), *pinned]
    clone = ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
    steps = [
        Step("torch", "PyTorch and build tools", torch, [build, constraints]),
        Step(COMPILED, "fairseq-fixed", fairseq, [folder / "fairseq.txt"]),
        Step("base", "other packages", others, [base, constraints]),
        Step("clone", "this clone", clone, [ROOT / "pyproject.toml", ROOT / "setup.py"]),
    ]
    for name, title in EXTRAS.items():
        if name in groups:
            needed = folder / f"{name}.txt"
            steps.append(Step(name, title, ["-r", str(needed), *pinned], [needed, constraints]))
    return steps


def default_torch() -> str:
    """The torch that requirements/torch.txt pins."""
    lines = (ROOT / "requirements" / "torch.txt").read_text().splitlines()
    return next(line.strip() for line in lines if line.strip() and line[0] != "#")


# -- What is already there ------------------------------------------------------------------------


def read_state(venv: Path) -> "dict[str, Any]":
    """What earlier runs finished; empty where nothing is known or the note is damaged."""
    try:
        state = json.loads((venv / ".selfattn" / "state.json").read_text())
        return {"torch": state["torch"], "place": state["place"], "done": dict(state["done"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"torch": None, "place": None, "done": {}}


def write_state(venv: Path, state: "dict[str, Any]") -> None:
    """Note what is finished; the old note stays whole until the new one is."""
    path = venv / ".selfattn" / "state.json"
    path.with_suffix(".new").write_text(json.dumps(state, indent=1))
    os.replace(str(path.with_suffix(".new")), str(path))


def venv_version(venv: Path) -> "tuple[int, ...] | None":
    """The Python version of an environment; None where there is no environment that runs."""
    command = [str(venv / "bin" / "python"), "-c", "import sys, pip; print(*sys.version_info[:3])"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    if done.returncode:
        return None
    return tuple(int(part) for part in done.stdout.split())


def runs(venv: Path) -> bool:
    """Whether an environment has a Python that runs."""
    try:
        return not subprocess.call([str(venv / "bin" / "python"), "-c", ""])
    except OSError:
        return False


def drop_half_installed(venv: Path) -> None:
    """Remove what an interrupted pip left: pip would take a package without RECORD for whole."""
    for info in venv.glob("lib/python*/site-packages/*"):
        whole = (info / "RECORD").is_file()
        if info.name.startswith("~") or (info.name.endswith(".dist-info") and not whole):
            shutil.rmtree(str(info), ignore_errors=True)


# -- Running pip ----------------------------------------------------------------------------------


def explain(log: str, step: Step) -> str:
    """One sentence from pip's output: which package, and why."""
    missing = re.findall(r"No matching distribution found for (\S+)", log)
    asked = re.findall(r"^\s*(?:Collecting|Downloading|Processing) (\S+)", log, re.MULTILINE)
    package = missing[-1] if missing else asked[-1] if asked else step.title
    if "No space left on device" in log:
        return f"the disk ran full while {package} was installed"
    if "DO NOT MATCH THE HASHES" in log:
        return f"{package} is not the file that was pinned (its hash differs), so it was refused"
    if NO_NETWORK.search(log) or missing:
        return (
            f"{package} could not be fetched: no package index could be reached that has it; check "
            "the network and pip's settings (pip config list)"
        )
    errors = [line for line in log.splitlines() if re.match(r"\s*(ERROR|error|\w*Error)\b", line)]
    lines = errors or [line for line in log.splitlines() if line.strip()] or ["no output"]
    return f"{package} could not be installed: {lines[-1].strip()}"


def clean_environment() -> "dict[str, str]":
    """The caller's environment without what would send the packages elsewhere; a quick compiler."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    kept.setdefault("PIP_RETRIES", "2")  # without a network, fail within seconds
    # Without debug symbols, fairseq-fixed is compiled in two thirds of the time.
    kept["CFLAGS"] = f"-g0 {kept.get('CFLAGS', '')}".strip()
    # torch's builder writes one build.ninja for all extensions: two at a time would tear it.
    if not shutil.which("ninja"):
        kept.setdefault("DIST_EXTRA_CONFIG", str(ROOT / "requirements" / "build.cfg"))
    return dict(kept, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_INPUT="1", PYTHONUNBUFFERED="1")


@contextmanager
def spawned(command: "list[str]", log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a command with its output in `log`; the block ends it, and all that it started."""
    with log.open("wb") as sink:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            start_new_session=True,  # a group of its own: pip's compilers must end with pip
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def watch(child: "subprocess.Popen[bytes]", label: str) -> int:
    """Show one line of progress until a command has ended; its return code."""
    start, spoken, live = time.time(), time.time(), sys.stdout.isatty()
    print(label, end="" if live else "\n", flush=True)
    while child.poll() is None:
        time.sleep(0.2)
        seconds = int(time.time() - start)
        if live:
            print(f"\r{label} {seconds} s ", end="", flush=True)
        elif time.time() - spoken > 30:
            print(f"{label} {seconds} s", flush=True)
            spoken = time.time()
    state = "done" if child.returncode == 0 else "failed"
    print(f"{chr(13) if live else ''}{label} {state}, {time.time() - start:.0f} s", flush=True)
    return child.returncode


@contextmanager
def locked(folder: Path) -> "Iterator[None]":
    """Wait until no other process installs into this folder."""
    descriptor = os.open(str(folder), os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another make, which is installing ...", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_venv(venv: Path, label: str) -> None:
    """Make the environment, or mend one that does not run."""
    logs = venv / ".selfattn"
    if venv.exists():
        ours = logs.exists() or (venv / "pyvenv.cfg").is_file()
        if not ours and (not venv.is_dir() or any(venv.iterdir())):
            raise SetupError(f"{venv} exists, but is not a Python environment: move it away")
        if not logs.exists() and runs(venv):
            raise SetupError(
                f"{venv} is a Python environment without pip: move it away, or add pip with "
                f"{venv}/bin/python -m ensurepip"
            )
        shutil.rmtree(str(venv))
    logs.mkdir(parents=True, exist_ok=True)
    log = log_of(venv, "venv")
    with spawned([sys.executable, "-m", "venv", str(venv)], log) as child:
        code = watch(child, label)
    if code:
        text = log.read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()] or ["no output"]
        raise SetupError(f"Python could not make an environment in {venv}: {lines[-1].strip()}")


def log_of(venv: Path, name: str) -> Path:
    """Where the output of a step goes."""
    return venv / ".selfattn" / f"{name}.log"


def finish(
    venv: Path, chosen: "str | None", step: Step, child: "subprocess.Popen[bytes]", number: str
) -> None:
    """Wait for a step, and note that it is done."""
    log = log_of(venv, step.name)
    if watch(child, f"{number} {step.title} ..."):
        words = explain(log.read_text(errors="replace"), step)
        raise SetupError(f"{words}; pip's own words are in {log}")
    done = dict(read_state(venv)["done"], **{step.name: step.fingerprint()})
    write_state(venv, {"torch": chosen, "place": str(venv), "done": done})


def install(venv: Path, steps: "list[Step]", chosen: "str | None") -> None:
    """Check the machine, then do each step that is not done, and note it when it is.

    ``chosen`` is the torch of the caller's choice; None takes the pinned one, also a later one.
    """
    state = read_state(venv)
    running = tuple(sys.version_info[:3])
    moved = state["place"] not in (None, str(venv))  # the scripts in bin/ name the old place
    found = None if moved else venv_version(venv)
    ours = (venv / ".selfattn").is_dir()
    if ours and found and not state["done"] and found[:2] != running[:2]:
        found = None  # nothing is in it yet, and the caller has chosen another Python
    due = [s for s in steps if not found or state["done"].get(s.name) != s.fingerprint()]
    names = {step.name for step in due}
    check_python(found or running, venv if found else None)
    if COMPILED in names:
        check_compiler(found or running)
    if not found:
        check_venv_module()
    free = check_disk(venv.parent, NEEDED_MB if "torch" in names else 300)
    check_disk(Path(tempfile.gettempdir()), 300)  # where pip unpacks and builds
    if "torch" in names and chosen in (None, default_torch()) and free < CUDA_MB:
        print(
            f"note: {free} MB are free; a torch with CUDA packages needs about {CUDA_MB} MB: "
            "make env TORCH=... names another torch (see requirements/torch.txt)"
        )
    total = len(due) + (not found)
    if not found:
        make_venv(venv, f"[1/{total}] environment in {venv.name} ...")
    (venv / ".selfattn").mkdir(exist_ok=True)
    drop_half_installed(venv)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--progress-bar", "off"]
    labels = (f"[{n}/{total}]" for n in range(1 + (not found), total + 1))
    with ExitStack() as children:
        compiling = []
        for step in due:
            child = children.enter_context(spawned(pip + step.arguments, log_of(venv, step.name)))
            if step.name == COMPILED:
                compiling.append((step, child))
            else:
                finish(venv, chosen, step, child, next(labels))
        for step, child in compiling:
            finish(venv, chosen, step, child, next(labels))


def main(argv: "list[str] | None" = None) -> int:
    """Read the command line, see what is missing, install that."""
    parser = argparse.ArgumentParser(
        description="Make .venv in this clone and install the pinned packages into it.",
        epilog="example: python3.11 scripts/setup_env.py base dev docs",
    )
    parser.add_argument("groups", nargs="*", help="base (the demo), dev (tests), docs (the site)")
    parser.add_argument("--torch", metavar="SPEC", help="another torch, as pip is to be given it")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    known = ["base", *EXTRAS]
    unknown = sorted(set(options.groups) - set(known))
    if unknown:
        parser.error(f"group {unknown[0]!r} is not known: choose from {', '.join(known)}")
    start, venv = time.time(), options.venv.absolute()
    try:
        state = read_state(venv)
        chosen = options.torch or state["torch"]
        steps = plan(options.groups, chosen or default_torch())
        if (venv / "bin" / "python").exists() and all(
            state["done"].get(step.name) == step.fingerprint() for step in steps
        ):
            return 0
        with locked(venv.parent):
            install(venv, steps, chosen)
    except (SetupError, OSError) as error:
        print(f"setup_env.py: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup_env.py: interrupted; the same command continues", file=sys.stderr)
        return 130
    print(f"environment ready in {time.time() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
