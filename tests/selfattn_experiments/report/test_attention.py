"""Pictures of attention: what the pixels say, sizes for long sentences, numbers."""

from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import nn

from selfattn.errors import UserError
from selfattn.layers import Inspection, build_attention
from selfattn_tasks.capture import inspections

pytest.importorskip("matplotlib")

from selfattn_experiments.report.attention import Look, draw
from selfattn_experiments.report.attention_layout import Sheet, stack
from selfattn_experiments.report.attention_panels import (
    PARTS,
    pairs_section,
    strip_section,
)


def pixel(figure, panel, column, row):
    """Mean colour and its spread over the middle of a cell, each 0 to 255."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[..., :3].astype(float)
    x, y = panel.transData.transform((column, row))
    middle = image[
        image.shape[0] - int(y) - 4 : image.shape[0] - int(y) + 4, int(x) - 4 : int(x) + 4
    ]
    return middle.mean((0, 1)), middle.std((0, 1)).max()


def test_colours_tell_nothing_a_little_much_and_hidden_apart():
    weights = np.zeros((1, 4, 4))
    weights[0, 1, 0], weights[0, 2, :2], weights[0, 3, :3] = 1, (1e-9, 1 - 1e-9), (0.2, 0.3, 0.5)
    figure = stack(pairs_section(Sheet(["a", "b", "c", "d"]), weights, [1], ["forward"]))
    panel = figure.axes[0]
    (hidden, hatch), (little, plain), (much, _), (half, _) = (
        pixel(figure, panel, column, row) for column, row in ((3, 1), (0, 2), (0, 1), (2, 3))
    )
    assert little.min() > 253 and plain < 1, "a weight near 0 is white"
    assert hatch > 5 and hidden.max() < 240 and np.ptp(hidden) < 2, "hidden is hatched grey"
    assert much.max() < 80
    assert much.sum() < half.sum() < hidden.sum()
    assert [text.get_text() for text in panel.texts] == ["sees nothing"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["a", "b", "c", "d"]


def test_the_scale_is_one_for_all_heads_and_the_mask_s_edge_does_not_set_it():
    length = 40
    one = np.tril(np.ones((length, length)), -1)
    even = one / np.maximum(one.sum(-1, keepdims=True), 1)
    weights, names = np.stack([even, even[::-1, ::-1]]), ["forward", "backward"]
    figure = stack(pairs_section(Sheet(["x"] * length), weights, [1, 2], names))
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert [image.norm.vmax for image in images] == pytest.approx([0.1, 0.1])
    units = [axes.get_ylabel() for axes in figure.axes]
    assert units.count("weight (arrow: this or more)") == 2
    assert not any(image.norm.vmin for image in images)


@pytest.mark.parametrize("length", [1, 2, 12, 20, 21, 67, 100, 250, 1000])
def test_labels_never_touch_and_pages_stay_printable(length):
    sheet = Sheet([f"token{i}" for i in range(length)])
    shown = np.array(sheet.shown)
    assert shown[0] == 0 and shown[-1] < length
    if length > 1:
        assert np.diff(shown).min() * sheet.cell * 72 >= 1.2 * sheet.font
    assert sheet.font >= 5.5
    weights = np.full((8, length, length), 1 / length)
    (section,) = pairs_section(sheet, weights, range(1, 9), ["no direction"] * 8)
    assert section.width < 26 and section.height < 50


@pytest.mark.parametrize("length", [1, 3, 5, 40])
def test_the_colour_bar_s_label_touches_no_other_words(length):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    sheet, values = Sheet(["x"] * length), np.tril(np.full((2, length, length), 1 / length))
    strip = strip_section(
        sheet, "the whole", "share, 0 to 1", values[:, 0], ["head 1", "head 2"], 1
    )
    figure = stack([*pairs_section(sheet, values, [1, 2], ["forward"] * 2), strip])
    FigureCanvasAgg(figure).draw()
    words = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    boxes = {text: text.get_window_extent() for text in words}
    units = [text for text in words if text.get_text().startswith(("weight", "share"))]
    assert len(units) == 2
    for unit in units:
        touched = [t.get_text() for t in words if t is not unit and boxes[t].overlaps(boxes[unit])]
        assert not touched


def full(length=5):
    """An inspection with every part, two heads."""
    weights = torch.tril(torch.rand(1, 2, length, length, dtype=torch.float64), -1)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
    chosen = torch.arange(length)[None] % 2 == 0
    return Inspection(
        ("forward", "forward, window 2"), weights, weights[:, :, -1], weights[:, :, -1], chosen,
        ~chosen, chosen * 0.9, chosen * 0.1, torch.arange(length)[None] // 2,
    )  # fmt: skip


@pytest.mark.parametrize("length", [1, 5])
def test_every_part_is_drawn_with_its_words(tmp_path, length):
    tokens = ("<a&b>", "$x$", "Größe", "▁une\x1b", "x" * 40)[:length]
    look = Look(tokens, full(length), 2, 3, "resa", (1, 2), predicate=0)
    assert look.parts == list(PARTS)
    png, svg = draw(look, tmp_path / "a.b", look.parts, "run")
    assert (png.name, svg.name) == ("a.b.png", "a.b.svg")
    words = svg.read_text(encoding="utf-8")
    ElementTree.fromstring(words)  # no control character, which XML cannot hold
    expected = ["&lt;a&amp;b&gt;", "$x$", "Größe", "_une\ufffd", "x" * 17 + "…"][:length]
    expected += ["run: layer 2 of 3, resa", "source2token", "fusion gate", "dependents", "window 2"]
    assert [word for word in expected if word not in words] == []
    assert not list(tmp_path.glob(".*"))


def test_heads_are_chosen_by_number():
    look = Look(tuple("abcde"), full(), 1, 1, "resa", (1, 2))
    one = look.with_heads([2])
    found = one.numbers(["token2token", "selection"])
    assert found["heads"] == [2] and found["masks"] == ["forward, window 2"]
    expected = look.inspection.token2token[0, 1:].numpy()
    np.testing.assert_allclose(found["token2token"], expected, atol=1e-8)
    assert found["selected_heads"] == [True, False, True, False, True]
    assert found["blocks"] == [0, 0, 1, 1, 2]
    assert "gate" not in found
    with pytest.raises(UserError, match="--heads 3: layer 1 has the heads 1 to 2"):
        look.with_heads([1, 3])


def test_layers_are_looked_into_with_the_input_that_their_model_gives_them():
    torch.manual_seed(0)
    layers = [build_attention("multihead", 8, 2) for _ in range(2)]
    model = nn.Sequential(*layers)
    x = torch.randn(1, 4, 8).double()
    first, second = inspections(model, layers, lambda: model(x))
    assert torch.equal(first.token2token, layers[0].inspect(x).token2token)
    assert torch.equal(second.token2token, layers[1].inspect(layers[0](x)).token2token)
    assert first.token2token.dtype == torch.float64
    assert not layers[0]._forward_pre_hooks
    with pytest.raises(UserError, match="Linear is not an attention layer that can be inspected"):
        linear = nn.Linear(8, 8)
        inspections(linear, [linear], lambda: linear(x))
