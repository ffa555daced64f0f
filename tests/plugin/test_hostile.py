"""Hostile checkpoints, flags and archives: nothing they hold runs, at any entry point."""

import argparse
import ast
import importlib
import io
import logging
import os
import pickle
import sys
import tarfile
from functools import partial
from pathlib import Path

import fairseq_cli.hydra_train
import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import FastaDataset, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging.meters import MetersDict
from fairseq.models.transformer import TransformerModel

import plugin
from plugin.compat.literals import literal
from plugin.looking import load, look
from plugin.models.transformer import AttentionTransformerModel
from selfattn.errors import UserError
from selfattn_experiments import averaging
from selfattn_tasks import checkpoints
from selfattn_tasks.sentences.model.predictor import Predictor as SentencePredictor
from selfattn_tasks.srl.tagger.predictor import Predictor
from tests.plugin.helpers import parsed
from wmt14.runs import describe

FOLDER = Path(__file__).resolve().parents[1] / "data" / "checkpoint_v0_1"
CODE = "__import__('pathlib').Path('ran').touch() or [5]"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Work in an empty folder, in which a payload leaves the file ``ran``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # fairseq's commands set their own
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    yield tmp_path
    assert not (tmp_path / "ran").exists(), "the payload ran"


class Payload:
    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


def frozen(**flags):
    """A small translation model; ``flags`` are stored with it."""
    state = checkpoints.read(FOLDER / "nmt.pt")
    for name, value in flags.items():
        setattr(state["cfg"]["model"], name, value)
    return state


@pytest.fixture
def command(monkeypatch, toy_data):
    """A function that runs one of fairseq's commands in this process."""

    def run(name, *flags):
        root = str(Path(plugin.__file__).parent)
        monkeypatch.setattr(sys, "argv", [f"fairseq-{name}", *map(str, flags), "--user-dir", root])
        importlib.import_module("fairseq_cli." + name).cli_main()

    run.training = (
        toy_data, "--arch", "transformer_mtsa_tiny", "--optimizer", "adam", "--cpu", "--lr", "0.1",
        "--max-tokens", "400", "--max-update", "1",
    )  # fmt: skip
    run.train = partial(run, "train", *run.training)
    return run


def hydra_train(run, path):
    """What fairseq-hydra-train does once Hydra has read its configuration."""
    args = parsed(*run.training, "--restore-file", path)
    fairseq_cli.hydra_train._hydra_main(convert_namespace_to_omegaconf(args))


DATA = (FOLDER, "--source-lang", "src", "--target-lang", "tgt", "--cpu")
# Those that build a model, and those that only read the file.
BUILDING = {
    "generate": lambda run, path: run("generate", *DATA, "--path", path),
    "interactive": lambda run, path: run("interactive", *DATA, "--path", path),
    "validate": lambda run, path: run("validate", FOLDER, "--cpu", "--path", path),
    "eval_lm": lambda run, path: run(
        "eval_lm", *DATA, "--task", "translation", "--path", path, "--model-overrides", "{'a': 1}"
    ),
    "from_pretrained": lambda run, path: AttentionTransformerModel.from_pretrained(
        ".", path.name, str(FOLDER)
    ),
    "fairseq's from_pretrained": lambda run, path: TransformerModel.from_pretrained(
        ".", path.name, str(FOLDER)
    ),
    "show_attention": lambda run, path: look(load(path, str(FOLDER)), "a b"),
}
READING = {
    "restore": lambda run, path: run.train("--restore-file", path),
    "finetune": lambda run, path: run.train("--finetune-from-model", path),
    "hydra_train": hydra_train,
    "predict_srl": lambda run, path: Predictor.load([path]),
    "predict_sentences": lambda run, path: SentencePredictor.load([path]),
    "the task": lambda run, path: checkpoints.by_task(path, {}, None),
    "average": lambda run, path: averaging.average([path]),
    "wmt14": lambda run, path: describe(path, "x", {}),
    "grid": lambda run, path: checkpoints.updates(path),
}
ENTRIES = BUILDING | READING


def test_the_harmless_one_is_read(place):
    torch.save(frozen(), place / "a.pt")
    look(load(place / "a.pt", str(FOLDER)), "a b")


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_pickle_s_call_is_refused(entry, command, place):
    state = frozen(note=Payload(os.system, "touch ran"))
    torch.save(state, place / "a.pt")
    with pytest.raises(UserError) as caught:
        ENTRIES[entry](command, place / "a.pt")
    assert "a.pt is refused: it holds posix.system, which is not loaded" in str(caught.value)


@pytest.mark.parametrize("entry", BUILDING)
def test_a_flag_of_a_checkpoint_is_not_evaluated(entry, command, place):
    torch.save(frozen(adaptive_softmax_cutoff=CODE), place / "a.pt")
    with pytest.raises(UserError) as caught:
        BUILDING[entry](command, place / "a.pt")
    assert "--adaptive-softmax-cutoff in the checkpoint " in str(caught.value)
    assert "nothing else is evaluated" in str(caught.value)


CALLS = {
    "os.system": lambda: Payload(os.system, "touch ran"),
    "eval": lambda: Payload(eval, CODE),
    "exec": lambda: Payload(exec, CODE),
    "getattr": lambda: Payload(getattr, argparse.Namespace, "__init__"),
    "setattr": lambda: Payload(setattr, argparse.Namespace, "__str__", 1),
    "import": lambda: Payload(importlib.import_module, "antigravity"),
    "open": lambda: Payload(io.open, "ran", "w"),
    "torch.load": lambda: Payload(torch.load, "other.pt"),
}
FORMATS = {
    "zip": torch.save,
    "legacy": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
    "pickle": lambda state, path: path.write_bytes(pickle.dumps(state, protocol=2)),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("forced", [False, True], ids=["", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"])
def test_no_call_in_any_format(call, kind, forced, place, monkeypatch):
    if forced:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    path = place / "a.pt"
    FORMATS[kind]({"model": {}, "args": CALLS[call]()}, path)
    for read in (checkpoints.read, lambda p: checkpoint_utils.load_checkpoint_to_cpu(str(p))):
        with pytest.raises(UserError, match="a.pt") as caught:
            read(path)
        assert "add_safe_globals" not in str(caught.value)
        assert not caught.value.__cause__ or "add_safe_globals" not in str(caught.value.__cause__)


FLAGS = {
    "generate": ("--model-overrides", DATA),
    "interactive": ("--model-overrides", DATA),
    "validate": ("--model-overrides", (FOLDER,)),
    "eval_lm": ("--model-overrides", (*DATA, "--task", "translation")),
}


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [CODE, "{'x': open('ran', 'w')}", "[1]", "{'x'"])
def test_overrides_are_dictionaries(name, value, command):
    flag, words = FLAGS[name]
    with pytest.raises(UserError, match=f"^{flag} is .*, but must be a"):
        command(name, *words, "--path", FOLDER / "nmt.pt", flag, value)


@pytest.mark.parametrize(
    "words",
    [
        ("--adam-betas", CODE),
        ("--adaptive-softmax-cutoff=" + CODE,),
        ("--optimizer", "adamax", "--adamax-betas", CODE),
        ("--optimizer-overrides", CODE),
    ],
    ids=["adam", "cutoff", "adamax", "optimizer"],
)
def test_flags_of_a_training_are_not_evaluated(words, command, capsys):
    with pytest.raises((UserError, SystemExit)) as caught:
        command.train("--no-save", *words)
    flag = words[-2] if len(words) > 1 else "--adaptive-softmax-cutoff"
    assert flag in str(caught.value) + capsys.readouterr().err


def test_fairseq_evaluates_nothing():
    """Each of its modules that calls eval has ours; none calls exec or compiles text."""
    seen = set()
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.split(".")[0] not in ("fairseq", "fairseq_cli") or not str(file).endswith(".py"):
            continue
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("exec", "compile", "__import__"), name
                if node.func.id == "eval":
                    seen.add(name)
                    assert vars(module).get("eval") is literal, name
    assert {"fairseq.utils", "fairseq.optim.adam", "fairseq.models.fconv"} <= seen


@pytest.mark.parametrize("text", [CODE, "x", "", "[0] * 10**9", "[0] * 999999", "(" * 9999, "f''"])
def test_not_a_literal(text):
    for evaluate in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(UserError, match="nothing else is evaluated"):
            evaluate(text)


def test_literals_are_what_they_were():
    assert utils.eval_str_list("0.9,0.98") == [0.9, 0.98]
    assert utils.eval_str_list("[1, 2]", int) == utils.eval_str_list((1, 2), int) == [1, 2]
    assert utils.eval_str_list("3", int) == [3]
    assert utils.eval_str_dict("{'a': {'b': 1}}") == {"a": {"b": 1}}
    assert utils.eval_bool("True") and not utils.eval_bool("0") and utils.eval_bool(None, True)
    for text in ("[(512, 3)] * 20", "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512, 2, 2)]"):
        assert literal(text) == eval(text)


def tar(path, *members):
    """Write an archive: of a name a file, of a name and a target a link, of a type what it is."""
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    return path


ARCHIVES = {
    "absolute": [("{place}/ran", tarfile.REGTYPE, "")],
    "parent": [("model/../../ran", tarfile.REGTYPE, "")],
    "through a link": [("m", tarfile.SYMTYPE, "{place}"), ("m/ran", tarfile.REGTYPE, "")],
    "link": [("model.pt", tarfile.SYMTYPE, "/etc/passwd")],
    "hard link": [("model.pt", tarfile.LNKTYPE, "/etc/passwd")],
    "device": [("model.pt", tarfile.CHRTYPE, "")],
    "pipe": [("model.pt", tarfile.FIFOTYPE, "")],
}


@pytest.mark.parametrize("model", [AttentionTransformerModel, TransformerModel])
@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives_stay_in_their_folder(kind, model, place):
    members = [(n.format(place=place), k, t.format(place=place)) for n, k, t in ARCHIVES[kind]]
    path = tar(place / "x.tar.gz", ("good", tarfile.REGTYPE, ""), *members)
    before = path.read_bytes()
    with pytest.raises(UserError, match="x.tar.gz is not unpacked: it holds '.*', which"):
        model.from_pretrained(str(path))
    assert path.read_bytes() == before and os.listdir(place) == ["x.tar.gz"]


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"\x1f\x8b\x08" + bytes(20)])
def test_no_archive(content, place):
    (place / "x.tar.gz").write_bytes(content)
    with pytest.raises(UserError, match="x.tar.gz is not unpacked"):
        TransformerModel.from_pretrained("x.tar.gz")
    with pytest.raises(UserError, match="^y.tar.gz is not a folder, archive or address"):
        TransformerModel.from_pretrained("y.tar.gz")


@pytest.mark.parametrize("top", ["", "model/"])
def test_an_archive_of_a_model(top, place):
    path = place / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("nmt.pt", "dict.src.txt", "dict.tgt.txt"):
            archive.add(FOLDER / name, top + name)
    before = path.read_bytes()
    line = (FOLDER / "text" / "test.src").read_text(encoding="utf-8").splitlines()[0]
    found = [
        AttentionTransformerModel.from_pretrained(str(folder), "nmt.pt").translate(line)
        for folder in (path, FOLDER)
    ]
    assert found[0] == found[1]
    assert path.read_bytes() == before  # fairseq put the unpacked folder in its place


def test_a_data_file_s_name_reaches_no_shell(place):
    (place / "x;touch ran;.fasta").touch()
    with pytest.raises(UserError, match="a name that a shell"):
        indexed_dataset.make_dataset("x;touch ran;", "fasta")
    (place / "x.fasta").write_text(">a\nACGT\n")
    assert FastaDataset.exists("x")


@pytest.mark.parametrize("name", ["OrderedDict", "safe_round", "__builtins__", "MetersDict", "x"])
def test_a_metric_is_a_meter(name):
    found = MetersDict()
    found.load_state_dict([(0, "loss", "AverageMeter", {"val": 1, "sum": 2, "count": 1})])
    assert found["loss"].sum == 2
    with pytest.raises(UserError, match=f"metric 'loss' is a '{name}', which is not a meter"):
        found.load_state_dict([(0, "loss", name, {})])


USING = [entry for entry in ENTRIES if entry != "the task"]  # the weights


@pytest.mark.parametrize("entry", USING)
def test_numbers_that_are_none(entry, command, place):
    state = frozen()
    state["model"]["decoder.layers.0.fc1.weight"][1, 2] = float("nan")
    torch.save(state, place / "a.pt")
    with pytest.raises(UserError, match="a.pt cannot be used: .* decoder.layers.0.fc1.weight hold"):
        ENTRIES[entry](command, place / "a.pt")


@pytest.mark.parametrize("entry", ["generate", "from_pretrained"])
def test_an_ensemble_of_one(entry, command, place):
    for name in ("a.pt", "b.pt"):
        torch.save(frozen(), place / name)
    with pytest.raises(UserError, match="a.pt and .*b.pt hold the same weights"):
        BUILDING[entry](command, Path(f"a.pt{os.pathsep}b.pt"))


@pytest.mark.parametrize("entry", USING)
def test_a_flipped_bit(entry, command, place):
    state = frozen()
    torch.save(state, place / "a.pt")
    content = bytearray((place / "a.pt").read_bytes())
    weight = state["model"]["decoder.layers.0.fc1.weight"].numpy().tobytes()
    content[content.index(weight) + 3] ^= 64
    (place / "a.pt").write_bytes(content)
    with pytest.raises(UserError, match=r"a.pt: the checksum of a/data/\d+ does"):
        ENTRIES[entry](command, place / "a.pt")
