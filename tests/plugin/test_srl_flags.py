"""Flags of SRL training and prediction reach the network, and mistakes end in one sentence."""

import math
import shutil

import pytest
import torch

from plugin.criterions.bio_tagging import IGNORED
from selfattn.errors import UserError
from selfattn_tasks.srl.chain import log_likelihood
from selfattn_tasks.srl.decode import bio_constraints
from selfattn_tasks.srl.prepare import prepare
from tests.plugin.helpers import parsed, sentence
from tests.plugin.srl_corpus import prepared
from tests.selfattn_tasks.srl.writers import write_encoder

FLAGS = """
    --user-dir plugin --task srl_tagging --arch deepatt_tiny --criterion bio_tagging --cpu
    --optimizer adadelta --lr 1.0 --max-tokens 500 --max-update 1 --no-save --num-workers 0
""".split()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("srl_flags")
    data = prepared(folder, train=(20, 1), valid=(20, 2))
    (folder / "unmet.txt").write_text("tulip" + 16 * " 0.1" + "\n")
    for width in (30, 250):
        numbers = " ".join(["0.1"] * width)
        (folder / f"wide{width}.txt").write_text(f"the {numbers}\ntulip {numbers}\n")
    return data


@pytest.fixture(scope="module")
def build(data):
    """A function that does what fairseq-train does before the first update; returns the model."""
    from fairseq import tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    def run(*flags, folder=data):
        words = [str(folder), *FLAGS, *(flag.replace("DATA", str(data)) for flag in flags)]
        cfg = convert_namespace_to_omegaconf(parsed(*words))
        run.task = task = tasks.setup_task(cfg.task)
        model = task.build_model(cfg.model)
        run.criterion = task.build_criterion(cfg.criterion)
        for split in ("train", cfg.dataset.valid_subset):
            task.load_dataset(split)
        return model

    return run


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--criterion cross_entropy", "--criterion cross_entropy does not fit"),
        ("--label-smoothing 1", "--label-smoothing 1.0 is not allowed"),
        ("--encoder-attention-heads 5", "--encoder-attention-heads 5 does not divide"),
        ("--encoder-embed-dim 16", "--encoder-embed-dim 16 leaves no room"),
        (
            "--characters 16",
            "beside 32 features of words, characters and --features; it must be above 32",
        ),
        ("--word-embed-dim 0", "--word-embed-dim 0 is not allowed"),
        ("--criterion policy_gradient --l2 0.1", "--l2 0.1 is for --task sentences"),
        ("--characters -1", "--characters -1 is not allowed"),
        ("--late-layers 3", "--late-layers 3 is not allowed; it must be at most 2"),
        ("--encoder-layers 0", "--encoder-layers 0 is not allowed; it must be at least 1"),
        ("--encoder-ffn-embed-dim 0", "--encoder-ffn-embed-dim 0 is not allowed"),
        ("--word-embeddings none.txt", "none.txt cannot be read"),
        ("--word-embeddings DATA/../wide30.txt", "--word-embed-dim 16 is not the width 30"),
        ("--word-embeddings DATA/../unmet.txt", "unmet.txt has no vector of any of the"),
        ("--word-embeddings none.txt --keep-vectors few", "--keep-vectors few is not allowed"),
        ("--criterion bio_crf", "--eval-decoder argmax does not fit --criterion bio_crf"),
        ("--criterion bio_crf --target predicates", "predicates does not fit --criterion bio_crf"),
        ("--sentence-avg", "--sentence-avg does not fit --criterion bio_tagging"),
        ("--criterion policy_gradient --sentence-avg", "--sentence-avg does not fit --criterion p"),
        ("--combine-valid-subsets", "--combine-valid-subsets does not fit --task srl_tagging"),
        ("--scaffold x --train-subset valid", "--train-subset valid does not fit --scaffold"),
        ("--encoder-freeze-embed", "--encoder-freeze-embed needs --word-embeddings FILE or"),
        ("--tune-features", "--tune-features needs --features FOLDER"),
        ("--features none", "--features none is not a folder"),
        ("--max-length 2", "--max-length 2 leaves none of the"),
        ("--mtsa-masks none", "--mtsa-masks none is a switch of --encoder-attention mtsa"),
        ("--valid-subset dev", "dev.txt does not exist"),
        ("--valid-subset valid,train", "--valid-subset valid,train: the set train is read without"),
        ("--task translation", "is data for --task srl_tagging, not for --task translation"),
        ("--arch transformer_mtsa_tiny", "--arch transformer_mtsa_tiny is not a tagger"),
    ],
)
def test_training(build, flags, expected):
    with pytest.raises(UserError) as caught:
        build(*flags.split())
    assert expected in str(caught.value)


def test_the_criterion_may_be_left_out(data):
    words = [flag for flag in FLAGS if flag not in ("--criterion", "bio_tagging")]
    assert parsed(data, *words).criterion == "bio_tagging"


def test_labels_that_the_dictionary_lacks(build, data, tmp_path):
    folder = shutil.copytree(data, tmp_path / "data")
    symbols = folder / "dict.label.txt"
    symbols.write_text(symbols.read_text().rsplit("\n", 2)[0] + "\n")
    with pytest.raises(UserError, match=r"train\.txt holds labels that dict\.label\.txt beside it"):
        build(folder=folder)


def test_scores_of_the_training_set_are_refused(build):
    model, examples = build(), build.task.datasets["train"]
    with pytest.raises(UserError, match="--valid-subset train: the training set is read without"):
        build.task.valid_step(examples.collater([examples[0]]), model, build.criterion)


def test_nothing_is_generated(build):
    build()
    with pytest.raises(UserError, match="SRLTaggingTask has no text to generate; give its"):
        build.task.build_generator([], None)


def test_a_missing_folder_names_the_script_that_writes_one(build, tmp_path):
    with pytest.raises(UserError, match=r"none does not exist: .* `selfattn prepare srl` wrote"):
        build(folder=tmp_path / "none")


def test_mistakes_of_the_command_line_have_no_traceback(data, run_cli, tmp_path):
    more = ["--lr-scheduler", "piecewise", "--lr-boundaries", "9,3", "--save-dir", tmp_path]
    done = run_cli(["-m", "fairseq_cli.train", data, *FLAGS, *more])
    assert "--lr-boundaries '9,3' is not allowed" in sentence(done)


def test_another_task_is_refused(toy_data, run_cli, tmp_path):
    flags = [flag for flag in FLAGS if flag not in ("srl_tagging", "bio_tagging")]
    flags = [flag for flag in flags if flag not in ("--task", "--criterion")]
    done = run_cli(["-m", "fairseq_cli.train", toy_data, *flags, "--save-dir", tmp_path])
    assert "--arch deepatt_tiny needs --task srl_tagging" in sentence(done)


@pytest.mark.parametrize(
    ("arch", "attention", "timing", "dropout", "initialiser"),
    [
        ("deepatt", "multihead", True, 0.1, "orthogonal"),
        ("deepatt_mtsa", "mtsa", False, 0.19, "glorot_normal"),
    ],
)
def test_published_architectures(build, arch, attention, timing, dropout, initialiser):
    config = build("--arch", arch, "--encoder-layers", "1").tagger.config
    assert (config.width, config.word_dim, config.heads, config.ffn_dim) == (200, 100, 8, 800)
    assert config.attention.name == attention
    assert config.attention.attention_dropout == dropout
    assert (config.timing, config.initialiser) == (timing, initialiser)
    assert (config.dropout, config.activation_dropout) == (0.2, 0.1)
    assert config.embedding_dropout == (0.2 if timing else 0.0)


@pytest.mark.parametrize(
    ("file", "width", "words"), [("wide30", 200, 30), ("wide250", 352, 250)]
)  # 352 = 8 * 44 is the first multiple of the heads with room for 100 more
def test_vectors_of_any_width(build, file, width, words):
    vectors = ["--word-embeddings", f"DATA/../{file}.txt"]
    tagger = build("--arch", "deepatt_mtsa", "--encoder-layers", "1", *vectors).tagger
    assert (tagger.config.width, tagger.config.word_dim) == (width, words)
    assert (tagger.frozen == 0.1).all() and tagger.frozen.shape == (1, words)
    assert int((tagger.words.weight == 0.1).all(1).sum()) == 1


def test_flags_that_reach_the_network(build):
    """What is trained, how large the embeddings are, and where the predicate is marked."""
    flags = ["--no-timing-signal", "--embedding-dropout", "0"]
    usual = build(*flags).tagger
    flags += ["--no-scale-embedding", "--encoder-freeze-embed"]
    other = build(*flags, "--finetune-from-model", "tagger.pt").tagger
    assert usual.words.weight.requires_grad and not other.words.weight.requires_grad
    other.load_state_dict(usual.state_dict())
    x, indicator = torch.randn(1, 3, 16), torch.tensor([[0, 1, 0]])
    scaled, plain = (tagger._marked(x, indicator, None) - tagger.bias for tagger in (usual, other))
    torch.testing.assert_close(scaled, plain * math.sqrt(32))
    late = build("--late-layers", "1").tagger
    seen = []
    for layer in late.layers:
        layer.register_forward_hook(lambda *call: seen.append(len(call[2])))
    words = torch.tensor([[4, 5, 6]] * 2)
    late(words, torch.eye(3, dtype=torch.long)[:2])
    assert seen == [1, 2], "the first layer reads the sentence once for both predicates"


@pytest.mark.parametrize("constraints", ["strict", "he", "tan"])
def test_a_loss_over_whole_sequences(build, constraints):
    """A word whose label training lacks may have any; what breaks the rules does not count."""
    rules = ["--crf-constraints", constraints]
    model = build("--criterion", "bio_crf", "--eval-decoder", "strict", *rules).eval()
    examples, labels = build.task.datasets["train"], build.task.vocabulary.labels
    sample = examples.collater([examples[0], examples[1]])
    length = len(examples[1][1].words)
    sample["target"][1, : length - 1] = IGNORED
    scores, padding = model(**sample["net_input"]), sample["net_input"]["padding_mask"]
    known = bio_constraints(labels, constraints)
    expected = -log_likelihood(scores, sample["target"], padding, known)[0]
    loss, words, logged = build.criterion(model, sample)
    torch.testing.assert_close(loss, expected.sum())
    assert words == logged["sample_size"] == len(examples[0][1].words) + 1
    sample["target"][0, 0] = next(i for i, tag in enumerate(labels) if tag.startswith("I-"))
    each, words, _ = build.criterion(model, sample, reduce=False)
    opens = constraints != "strict"  # whether a sentence may begin with I
    assert (words > 1, bool(each[0] > 0)) == (opens, opens) and each[1] == expected[1]


def test_a_loss_over_sequences_and_over_words_where_predicates_are_found(build):
    flags = ("--criterion", "bio_crf", "--eval-decoder", "strict", "--target", "both")
    model = build(*flags).eval()
    examples = build.task.datasets["train"]
    first = next(i for i, (_, example) in enumerate(examples) if example.predicate < 0)
    sample = examples.collater([examples[i] for i in (first, 0, first + 1, 1)])
    inputs, target = sample["net_input"], sample["target"]
    assert inputs["indicator"].any(1).tolist() == [False, True, False, True]
    target[0, 0] = IGNORED
    scores, rows = model(**inputs), [1, 3]
    known = bio_constraints(build.task.vocabulary.labels, "strict")
    of_chain = log_likelihood(scores[rows], target[rows], inputs["padding_mask"][rows], known)[0]
    log_p = torch.log_softmax(scores, -1)
    of_words = [
        sum(row[i, tag] for i, tag in enumerate(tags.tolist()) if tag != IGNORED)
        for row, tags in zip(log_p[::2], target[::2], strict=True)
    ]
    each, words, _ = build.criterion(model, sample, reduce=False)
    expected = torch.stack([of_words[0], of_chain[0], of_words[1], of_chain[1]])
    torch.testing.assert_close(each, -expected, check_dtype=False, rtol=1e-5, atol=1e-5)
    assert words == (target != IGNORED).sum()
    torch.testing.assert_close(build.criterion(model, sample)[0], each.sum())


def test_features_reach_the_network(build, tmp_path):
    """Every example has its pieces, and a tuned encoder its gradients."""
    pytest.importorskip("transformers")
    write_encoder(tmp_path / "bert", ("the", "goat", "was", "##hed"))
    flags = ["--features", str(tmp_path / "bert"), "--tune-features", "--encoder-embed-dim", "48"]
    model = build(*flags)
    examples = build.task.datasets["train"]
    net_input = examples.collater([examples[0], examples[1]])["net_input"]
    model(**net_input).sum().backward()
    gradient = model.tagger.features.encoder.embeddings.word_embeddings.weight.grad
    read = net_input["pieces"].unique()
    assert gradient[read[read > 0]].abs().sum(1).all()
    assert model.tagger.config.predicate_dim == 16


@pytest.mark.parametrize(
    ("keep", "kept"), [("all", [2, 3, 4]), ("seen", [3, 4]), ("1", [2]), ("0", [])]
)
def test_vectors_that_are_kept_and_how_many_there_are(build, tmp_path, caplog, keep, kept):
    """The dictionary lacks Milk and Rain, the latter without a predicate, and tulip is nowhere."""
    (tmp_path / "train").write_text("We - (A0*)\npour pour (V*)\n")
    (tmp_path / "valid").write_text("Milk - (A0*)\npour pour (V*)\n\nRain -\n")
    prepare({name: [tmp_path / name] for name in ("train", "valid")}, tmp_path / "data")
    (tmp_path / "data" / "raw.txt").write_text("Rain , again and again .\n")
    numbers = {"we": 1, "tulip": 2, "milk": 3, "rain": 4}
    lines = [f"{word} {' '.join([str(value)] * 16)}\n" for word, value in numbers.items()]
    (tmp_path / "vectors").write_text("".join(lines))
    flags = ["--word-embeddings", str(tmp_path / "vectors"), "--keep-vectors", keep]
    with caplog.at_level("INFO", "plugin.tasks"):
        model = build(*flags, folder=tmp_path / "data")
    assert model.tagger.frozen[:, 0].tolist() == kept
    assert "1 of the 2 training words (50.0 %) have one" in caplog.text
    assert f"{len(kept)} of other words are kept" in caplog.text


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("none.pt --sentence Go --predicates went", "the checkpoint none.pt does not exist"),
        ("none.pt --input none.conll --output none/a.props", "there is no folder none"),
        ("none.pt --input none.conll --output tests", "--output is tests, which cannot be written"),
        (
            "tests/data/checkpoint_v0_1/nmt.pt --sentence Go --predicates 0",
            "is one of translation",
        ),
    ],
)
def test_prediction(run_cli, args, expected):
    done = run_cli(["scripts/predict_srl.py", *args.split()])
    assert expected in sentence(done, "predict_srl.py")
