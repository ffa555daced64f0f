"""CoNLL-U: what is read, and what is refused."""

import pytest

from selfattn.errors import UserError
from selfattn_tasks.srl.formats.conllu import Tree, read_trees

TEXT = """\
# sent_id = ours-0001
# text = Don't pour cold tea out.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tpour\tpour\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tany\t_\t_\t_\t_\t_\t_\t_\t_
4\tvery cold\tcold\tADJ\t_\t_\t_\t_\t_\t_
5\ttea\ttea\tNOUN\tNN\t_\t3\tobj\t_\t_

1\tYes\t_\t_\tUH\t_\t12\tdiscourse\t_\t_
{more}12\tno\t_\t_\tUH\t_\t0\troot\t_\t_
"""
WORD = "1\tYes\t_\t_\tUH\t_\t0\troot\t_\t_\n"
MORE = "".join(f"{i}\tx\t_\t_\tFW\t_\t1\tdep\t_\t_\n" for i in range(2, 12))


def test_what_is_read(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(TEXT.format(more=MORE))
    first, second = read_trees(path)
    assert first == Tree(
        "ours-0001",
        ("Do", "n't", "pour", "very_cold", "tea"),
        ("VBP", "RB", "VB", "ADJ", "NN"),
        ("2", "1", "root", "_", "-2"),
        ("aux", "advmod", "root", "_", "obj"),
    )
    assert (second.name, second.heads[0], second.heads[-2:]) == ("", "8", ("-8", "root"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "holds no sentence of CoNLL-U"),
        ("# sent_id = 1\n\n", "holds no sentence of CoNLL-U"),
        ("\n1\tYes\tUH\n", "line 2: 3 columns, but CoNLL-U has 10"),
        (WORD + "2 no\n" + WORD, "line 2: '2 no' is not a word's number"),
        (WORD + WORD, "line 2: word 1, but 2 comes next in this sentence"),
        (WORD.replace("Yes", ""), "line 1: word 1 is empty"),
        (WORD.replace("\t0\t", "\t1\t"), "line 1: the head of word 1 is '1', but must be another"),
        (WORD.replace("\t0\t", "\tx\t"), "line 1: the head of word 1 is 'x', but must be another"),
        ("Yes - *\n", "line 1: 'Yes - *' is not a word's number"),
    ],
)
def test_what_is_refused(tmp_path, text, expected):
    path = tmp_path / "a.conllu"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_trees(path)
    assert str(caught.value).startswith(str(path)) and expected in str(caught.value)
