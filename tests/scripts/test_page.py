"""`selfattn page`: what it answers, and the page itself in a real browser."""

import re
import shutil
import socket
import sys

import pytest

from selfattn.errors import UserError
from selfattn_experiments.commands import page
from selfattn_tasks.model_folder import WEIGHTS
from selfattn_tasks.sentences.model.predictor import Predictor
from selfattn_tasks.srl import SRL
from tests.conftest import free_port, run_verb
from tests.scripts.test_bad_files import pairs  # noqa: F401
from tests.scripts.test_show_attention import save_tagger

pytest.importorskip("matplotlib")
TEXT = "The old <cat> ${1+1} {{chased}} a mouse."


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "tagger.pt"
    save_tagger(path, "mtsa", "sentence")
    return path


@pytest.fixture
def answer(tagger):
    model = page.open_tagger(tagger)
    return lambda *typed: page.respond(model, *typed)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ((" \n", "", "last"), "There is no text"),
        ((None, None, "last"), "There is no text"),
        (("A \ud800", "", "last"), "ud800&#x27; is half a character, which is no text."),
        (("a" * 2001, "", "last"), "Text: 2,001 characters; at most 2,000 are taken."),
        (("A mouse.", "<cat>", "last"), "predicates &lt;cat&gt; is neither a word of the text"),
    ],
)
def test_what_cannot_be_answered_gets_a_sentence(answer, typed, said):
    answered, problem = answer(*typed)
    assert answered == "" and said in problem and "<cat>" not in problem


def test_an_answer_may_come_without_a_picture(answer, tmp_path):
    answered, problem = answer("mouse " * 61, "0", "last")
    assert answered.count("mouse") == 61
    assert "61 tokens are too many for a picture" in problem
    save_tagger(tmp_path / "cnn.pt", "cnn")
    answered, problem = page.respond(page.open_tagger(tmp_path / "cnn.pt"), "A mouse.", "0", "last")
    assert "mouse" in answered and "is not an attention layer" in problem


def test_layers_are_drawn_one_or_all(answer):
    assert [answer(TEXT, "chased", layer)[1].count("<img") for layer in ("1", "all")] == [1, 2]


def test_a_pair_lacks_a_sentence(pairs):  # noqa: F811
    said = page.respond(page.open_sentences(pairs), "a b", " ", "last")
    assert said[0] == "" and "has 1 sentence, " in said[1]


def test_a_folder_of_hugging_face_translates(tmp_path):
    pytest.importorskip("transformers")
    from tests.selfattn_tasks.test_hostile_folder import save_translation

    save_translation(tmp_path)
    model = page.opening(tmp_path / WEIGHTS)(tmp_path / WEIGHTS)
    said, picture = page.respond(model, "a b <", "last")
    assert said.startswith('<p class="said"') and picture.count("<img") == 1
    _, problem = page.respond(model, "a " * 1000, "last")
    assert "... has 1001 pieces; the model takes 1000" in problem
    (tmp_path / WEIGHTS).write_bytes(b"x" * 99)
    with pytest.raises(UserError, match="the model in .* cannot be read: "):
        page.opening(tmp_path / WEIGHTS)(tmp_path / WEIGHTS)


def test_what_to_install_is_said(tagger, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(UserError, match="install it with `pip install gradio`"):
        page.build(tagger)
    monkeypatch.setattr(page, "opening", None)  # said before the model is read
    with pytest.raises(UserError, match="pip install"):
        page.build(tagger)


@pytest.fixture
def serve(monkeypatch, capsys):
    """Runs the command until it would wait for Ctrl-C; returns the address that it printed."""
    gradio = pytest.importorskip("gradio")
    serving = []
    monkeypatch.setattr(gradio.Blocks, "block_thread", lambda blocks: serving.append(blocks))

    def run(model, *flags):
        run_verb("page", model, "--port", str(free_port()), *flags)
        return capsys.readouterr().out.split()[-1]

    yield run
    for blocks in serving:
        blocks.close()


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium of the system."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no Chromium")
    playwright = pytest.importorskip("playwright.sync_api").sync_playwright
    flags = {"executable_path": found, "args": ["--no-sandbox"]}
    with playwright() as started, started.chromium.launch(**flags) as running:
        yield running


def answered(browser, url, *texts):
    """The page after its button was pressed; everything that it loaded came from its server."""
    assert url.startswith("http://127.0.0.1:")
    tab = browser.new_page()
    loaded = []
    tab.on("request", lambda request: loaded.append(request.url))
    tab.goto(url)
    for number, text in enumerate(texts):
        tab.get_by_role("textbox").nth(number).fill(text)
    tab.get_by_role("button", name="Go", exact=True).click()
    tab.wait_for_function("[...document.images].some(i => i.alt && i.naturalWidth > 300)")
    assert all(address.startswith((url, "data:")) for address in loaded)
    return tab


def test_an_address_of_another_machine_is_refused(tagger):
    said = "^--host 203.0.113.1 cannot be used: Cannot assign requested address$"
    with pytest.raises(UserError, match=said):
        run_verb("page", tagger, "--host", "203.0.113.1")


def test_a_port_that_is_taken_is_refused(tagger):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"--port {port} cannot be used: Address already in use$"
        with pytest.raises(UserError, match=said):
            run_verb("page", tagger, "--port", str(port))


def test_a_port_that_nobody_named_is_not_in_the_sentence(tagger, monkeypatch):
    class Page:
        def launch(self, **options):
            raise OSError("no empty port")

    monkeypatch.setattr(page, "build", lambda path: Page())
    with pytest.raises(UserError, match="^--host 127.0.0.1 cannot be used: no empty port$"):
        run_verb("page", tagger)


def test_a_program_gets_what_the_page_shows(serve, tagger, repo_root):
    """By the call that docs/page.md shows; this tagger wants its predicate named."""
    client = pytest.importorskip("gradio_client").Client
    url = serve(tagger)
    text = (repo_root / "docs" / "page.md").read_text(encoding="utf-8")
    (call,) = re.findall(r"^Client\(.*\)$", text, re.MULTILINE)
    call = call.replace("http://127.0.0.1:7860", url).replace('""', '"chased"')
    said = eval(call, {"Client": client})
    model = page.open_tagger(tagger)
    assert tuple(said) == page.respond(model, "The cat chased a mouse.", "chased", "last")
    assert "mouse" in said[0] and "<img" in said[1]


def test_roles_stand_over_the_words(serve, browser, tagger):
    tab = answered(browser, serve(tagger), TEXT, "chased")
    (sentence,) = SRL.from_pretrained(tagger)(TEXT, predicates=["chased"]).sentences
    assert tab.locator(".roles tr").last.inner_text().split() == list(sentence.words)
    (proposition,) = sentence.labelled.propositions
    roles = tab.locator(".roles .role").all_inner_texts()
    assert roles == [span.label for span in proposition.spans]
    tab.get_by_role("textbox").first.fill("")
    tab.get_by_role("button", name="Go", exact=True).click()
    tab.get_by_text("There is no text").wait_for()


def test_a_label_has_its_probabilities(serve, browser, pairs):  # noqa: F811
    tab = answered(browser, serve(pairs), "a b", "c <b>")
    predictor = Predictor.load(pairs)
    assert tab.locator(".said").inner_text() in predictor.state.vocabulary.labels
    shares = [meter.get_attribute("value") for meter in tab.locator("meter").all()]
    assert sum(map(float, shares)) == pytest.approx(1, abs=2e-4)


@pytest.mark.fairseq
def test_a_text_is_translated(serve, browser, repo_root):
    folder = repo_root / "tests" / "data" / "checkpoint_v0_1"
    source = (folder / "text" / "test.src").read_text(encoding="utf-8").splitlines()[0]
    tab = answered(browser, serve(folder / "paper.pt"), source)
    from plugin.models.transformer import AttentionTransformerModel

    model = AttentionTransformerModel.from_pretrained(str(folder), "paper.pt")
    assert tab.locator(".said").inner_text() == model.translate(source, beam=5)
    assert tab.title() == "checkpoint_v0_1/paper.pt"
