"""SRL from files to a score, all in subprocesses: prepare, train, kill, resume, predict, score."""

import json
import re
import shutil

import pytest
import torch

from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.tagger.predictor import Predictor, Query
from tests.plugin.helpers import logged, losses, run_ranks, sentence, validate, weights
from tests.plugin.srl_corpus import sentences
from tests.plugin.test_resume import run_until_killed

SIZES = {"train": (150, 1), "valid": (30, 2), "test": (30, 3)}
FLAGS = """
    --user-dir plugin --task srl_tagging --arch deepatt_mtsa --criterion bio_tagging
    --encoder-layers 2 --encoder-attention-heads 2 --encoder-embed-dim 32
    --cpu --num-workers 0 --no-progress-bar --log-format json --log-interval 1 --seed 1
    --max-tokens 500 --best-checkpoint-metric f1 --maximize-best-checkpoint-metric
""".split()
OPTIMISER = """
    --optimizer adadelta --adadelta-rho 0.95 --lr 1.0 --lr-scheduler piecewise --clip-norm 1.0
""".split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """CoNLL-2005 columns, and word vectors of width 20, also of a word that training lacks."""
    folder = tmp_path_factory.mktemp("srl")
    for split, (number, seed) in SIZES.items():
        conll.write_columns(folder / f"{split}.conll", sentences(number, seed))
    words = sorted({w.lower() for s in sentences(150, 1) for w in s.words} - {"goat"})
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(len(words) + 1, 20, generator=generator)
    lines = zip([*words, "tulip"], values.tolist(), strict=True)
    text = "".join(f"{word} {' '.join(f'{v:.4f}' for v in row)}\n" for word, row in lines)
    (folder / "vectors.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def data(corpus, run_cli):
    """The prepared folder."""
    splits = [f"--{split}={corpus / split}.conll" for split in SIZES]
    run_cli(["scripts/prepare_srl.py", *splits, "--dest", corpus / "data"]).ok()
    return corpus / "data"


@pytest.fixture(scope="module")
def train(data, corpus, run_cli):
    """A function that trains a small tagger with word vectors and returns the log's lines."""

    def run(save_dir, *flags, ok=True):
        vectors = ["--word-embeddings", corpus / "vectors.txt"]
        flags = (*OPTIMISER, *vectors, "--save-dir", save_dir, *flags)
        command = ["-m", "fairseq_cli.train", data, *FLAGS]
        done = run_cli([*command, *flags])
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done.lines

    return run


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory):
    """Folder and log of a run of four epochs that nothing disturbed."""
    folder = tmp_path_factory.mktemp("srl_run") / "whole"
    return folder, train(folder, "--max-epoch", "4", "--save-interval-updates", "4")


def predict(run_cli, *args, **options):
    return run_cli(["scripts/predict_srl.py", *args], **options).ok()


def figures(run_cli, gold, predicted) -> dict:
    """What scripts/score_srl.py says."""
    done = run_cli(["scripts/score_srl.py", gold, predicted, "--json"]).ok()
    return json.loads(done.stdout)


def test_the_best_checkpoint_has_the_official_score(whole, corpus, run_cli, tmp_path):
    """Validation says the F1 that predict and score say, and the best one is kept."""
    folder, log = whole
    valid = logged(log, "valid")
    assert len(valid) > 4
    best = max(valid, key=lambda record: float(record["valid_f1"]))
    assert float(best["valid_f1"]) > 20
    props = tmp_path / "valid.props"
    predict(run_cli, folder / "checkpoint_best.pt", "--input", corpus / "valid.conll",
            "--output", props, "--decoder", "argmax")  # fmt: skip
    found = figures(run_cli, corpus / "valid.conll", props)
    overall = found["overall"]
    for name in ("f1", "precision", "recall"):
        assert float(best[f"valid_{name}"]) == pytest.approx(overall[name], abs=0.006)
    share = 100 * found["perfect_props"] / found["propositions"]
    assert float(best["valid_perfect_props"]) == pytest.approx(share, abs=0.006)


def test_killed_and_resumed_equals_uninterrupted(whole, train, data, corpus, server, tmp_path):
    folder, log = whole
    everything = losses(log)
    vectors = ["--word-embeddings", corpus / "vectors.txt"]
    flags = ["--max-epoch", "4", "--save-interval-updates", "4"]
    command = [data, *FLAGS, *OPTIMISER, *vectors, "--save-dir", tmp_path, *flags]
    before = losses(run_until_killed(server, command, at="10"))
    after = losses(train(tmp_path, *flags))
    assert 0 < len(after) < len(everything)
    assert {**before, **after} == everything
    resumed = weights(tmp_path / "checkpoint_last.pt")
    for name, value in weights(folder / "checkpoint_last.pt").items():
        assert torch.equal(resumed[name], value), name


def test_other_labels_of_the_same_number_are_refused(whole, corpus, data, run_cli, tmp_path):
    """Weights of the right shapes would stand for other labels."""
    folder, path = shutil.copytree(data, tmp_path / "data"), whole[0] / "checkpoint_last.pt"
    symbols = folder / "dict.label.txt"
    symbols.write_text("\n".join(reversed(symbols.read_text().splitlines())) + "\n")
    vectors = ["--word-embeddings", corpus / "vectors.txt"]
    for flag in ("--restore-file", "--finetune-from-model"):
        more = [*OPTIMISER, *vectors, "--save-dir", tmp_path / "new", "--max-epoch", "5"]
        done = run_cli(["-m", "fairseq_cli.train", folder, *FLAGS, *more, flag, path])
        number = len(symbols.read_text().splitlines())
        expected = f"and {path} have different vocabularies: {number} and {number} labels;"
        assert expected in sentence(done), flag


def test_two_processes_train_and_score_as_one(whole, train, data, corpus, run_cli, tmp_path):
    """Losses, learning rates and the official score, whose counts come from both processes."""
    more = ["--max-update", "4", "--lr-boundaries", "2,4", "--no-save", "--dropout", "0",
            "--attention-dropout", "0", "--activation-dropout", "0"]  # fmt: skip
    alone = train(tmp_path, *more, "--update-freq", "2")
    command = [data, *FLAGS, *OPTIMISER, *more, "--word-embeddings", corpus / "vectors.txt"]
    outputs = run_ranks(run_cli, command, "--save-dir", tmp_path)
    together = [line for text in outputs for line in text.splitlines()]
    one, two = logged(alone, "valid")[-1], logged(together, "valid")[-1]
    for name in ("valid_loss", "valid_f1", "valid_perfect_props"):
        assert float(two[name]) == pytest.approx(float(one[name]), abs=0.02), name
    expected, found = losses(alone), losses(together)
    for log in (found, expected):
        rates = {number: float(rate) for number, (*_, rate) in log.items()}
        assert rates == {"1": 1.0, "2": 0.5, "3": 0.5, "4": 0.25}
    for number, (loss, *_) in found.items():
        assert float(loss) == pytest.approx(float(expected[number][0]), abs=2e-3)


def test_fairseq_validate_reads_the_checkpoint_alone(whole, data, run_cli, corpus, tmp_path):
    """The vectors' file is not needed again."""
    folder, log = whole
    best = max(float(record["valid_f1"]) for record in logged(log, "valid"))
    hidden = corpus / "hidden.txt"
    (corpus / "vectors.txt").rename(hidden)
    try:
        valid = validate(run_cli, data, folder / "checkpoint_best.pt")
    finally:
        hidden.rename(corpus / "vectors.txt")
    assert float(valid["valid_f1"]) == best


def test_vectors_are_in_the_checkpoint(whole, corpus):
    state = checkpoints.read(whole[0] / "checkpoint_best.pt")
    vocabulary = state["task_state"]["srl_tagging"]["vocabulary"]
    lines = (corpus / "vectors.txt").read_text().splitlines()
    stored = dict(line.split(" ", 1) for line in lines)
    frozen = vocabulary["frozen"]
    assert "tulip" in frozen and "goat" not in frozen
    row = state["model"]["tagger.frozen"][frozen.index("tulip")]
    expected = torch.tensor([float(value) for value in stored["tulip"].split()])
    torch.testing.assert_close(row, expected)
    assert state["model"]["tagger.words.weight"].shape == (len(vocabulary["words"]) + 2, 20)


@pytest.mark.parametrize("keep", ["0", "1"])
def test_a_small_file_of_a_trained_model_tags_alike(whole, corpus, run_cli, tmp_path, keep):
    """In half precision, without the optimizer, and with vectors by choice; loaded as float32."""
    best, small = whole[0] / "checkpoint_best.pt", tmp_path / "small.pt"
    run_cli(["scripts/average_checkpoints.py", "--inputs", best, "--output", small,
             "--half", "--keep-vectors", keep]).ok()  # fmt: skip
    assert small.stat().st_size < best.stat().st_size / 4
    assert {value.dtype for value in weights(small).values()} == {torch.float16}
    ours, theirs = Predictor.load(best), Predictor.load(small)
    (tagger, vocabulary), = theirs.members  # fmt: skip
    assert {p.dtype for p in tagger.parameters()} == {tagger.frozen.dtype} == {torch.float32}
    assert vocabulary.frozen == ours.members[0][1].frozen[: int(keep)]
    gold = conll.read(corpus / "test.conll")
    queries = [Query(s.words, p.predicate) for s in gold for p in s.propositions]
    mine, other = (each.log_probs(queries)[0].exp() for each in (ours, theirs))
    torch.testing.assert_close(mine, other, rtol=0, atol=0.01)
    assert ours.predict(gold, "structured") == theirs.predict(gold, "structured")


def test_a_sentence_for_a_person(whole, run_cli):
    best = whole[0] / "checkpoint_best.pt"
    done = predict(run_cli, best, "--sentence", "A goat drew the tulip.", "--predicates", "drew")
    words, roles = done.stdout.rstrip().split("\n")
    assert words.split() == "A goat drew the tulip .".split()
    assert roles[words.index("drew") :].startswith("[V")
    assert re.search(r"^1 proposition in .* a minute", done.stderr, re.MULTILINE)
    typed = predict(run_cli, best, "--predicates", "2", stdin="A goat drew the tulip.\n")
    assert typed.stdout == done.stdout
    two = predict(run_cli, best, "--predicates", "drew", "--format", "jsonl",
                  stdin="A goat drew the tulip.\nMaria hid.\thid\n")  # fmt: skip
    found = [json.loads(line) for line in two.stdout.splitlines()]
    assert [[p["predicate"] for p in record["propositions"]] for record in found] == [[2], [1]]


def test_output_formats_say_the_same(whole, corpus, run_cli, tmp_path):
    best, given = whole[0] / "checkpoint_best.pt", ["--input", corpus / "test.conll"]
    found = {}
    for name in ("a.props", "a.conll", "a.jsonl", "a.json"):
        predict(run_cli, best, *given, "--output", tmp_path / name, "--decoder", "he")
    for name in ("a.props", "a.conll"):
        found[name] = figures(run_cli, corpus / "test.conll", tmp_path / name)["overall"]
    assert found["a.props"] == found["a.conll"]
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert json.loads((tmp_path / "a.json").read_text()) == records
    for record, told in zip(records, conll.read(tmp_path / "a.conll"), strict=True):
        assert tuple(record["words"]) == told.words
        spans = [[(s["label"], s["start"], s["end"]) for s in p["spans"]]
                 for p in record["propositions"]]  # fmt: skip
        expected = [[(s.label, s.start, s.end) for s in p.spans] for p in told.propositions]
        assert spans == expected


def test_an_ensemble_averages_probabilities(whole, corpus):
    paths = [whole[0] / "checkpoint1.pt", whole[0] / "checkpoint_last.pt"]
    queries = [Query(("the", "goat", "hid", "his", "boat"), 2), Query(("Maria", "drew"), 1)]
    each = [Predictor.load([path]).log_probs(queries)[0].exp() for path in paths]
    alone = Predictor.load(str(paths[0])).log_probs(queries)[0].exp()
    assert torch.equal(alone, each[0])
    with pytest.raises(UserError, match="the checkpoint none.pt does not exist"):
        Predictor.load("none.pt")
    with pytest.raises(UserError, match="no checkpoint"):
        Predictor.load([])
    both, padding = Predictor.load(paths).log_probs(queries)
    torch.testing.assert_close(both.exp(), (each[0] + each[1]) / 2, rtol=1e-4, atol=1e-6)
    assert (each[0] - each[1]).abs().max() > 1e-3
    assert padding.tolist() == [[False] * 5, [False] * 2 + [True] * 3]
    alone = Predictor.load(paths).log_probs(queries[1:])[0]
    torch.testing.assert_close(both[1:, :2], alone, rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match="hold the same weights"):
        Predictor.load([paths[0], paths[0]])


def test_twenty_sentences_are_learnt_by_heart(run_cli, tmp_path):
    path = tmp_path / "twenty.conll"
    conll.write_columns(path, sentences(20, 9))
    run_cli(["scripts/prepare_srl.py", "--train", path, "--valid", path, "--dest",
             tmp_path / "data"]).ok()  # fmt: skip
    flags = """--dropout 0 --attention-dropout 0 --activation-dropout 0 --max-epoch 50
        --optimizer adam --lr 0.01 --lr-scheduler fixed --validate-interval 25
        --save-interval 25 --no-epoch-checkpoints --word-embed-dim 16""".split()
    run_cli(["-m", "fairseq_cli.train", tmp_path / "data", *FLAGS, *flags, "--save-dir",
             tmp_path]).ok()  # fmt: skip
    predict(run_cli, tmp_path / "checkpoint_best.pt", "--input", path, "--output",
            tmp_path / "out.props")  # fmt: skip
    found = figures(run_cli, path, tmp_path / "out.props")
    assert found["overall"]["f1"] == 100
    assert found["perfect_props"] == found["propositions"] > 15
