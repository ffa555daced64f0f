"""Table 4 of the MTSA paper: predicted roles of CoNLL-2005 beside the published figures.

Example: one system with all its seeds, another one, and an ensemble:

  selfattn score srl-table 'MTSA=runs/conll05/deepatt_mtsa-[0-9]' \\
      Bi-LSTM=runs/conll05/deepatt_bilstm-1 'MTSA x 5=runs/conll05/ensemble' --latex table4.tex

A run is a folder with valid.props, test.props and test1.props, as examples/srl_conll05/evaluate.sh
writes them for the development set, WSJ and Brown, and as `selfattn runs` does where the grid's
gold files have these names; a part that is not there stays empty. Several folders of a system give
the mean and the standard deviation. --gold is the folder that `selfattn prepare srl` wrote. P, R,
F1 and Comp. (perfect propositions) are the official script's. To compare with the last four
published rows, decode as their code does: `selfattn predict --decoder published`.
"""

import argparse
import glob
import sys
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.files import write_text

from ...compare.runs import System, name_systems
from ...report.srl_table import published_rows, read_parts, row_of, to_latex, to_markdown
from ..checks import check_outputs


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command to its parser."""
    add = parser.add_argument
    add("runs", nargs="*", metavar="NAME=GLOB",
        help="a system and the folders of its runs; none: the published rows alone")  # fmt: skip
    add("--gold", type=Path, default=Path("data-bin/conll05"), metavar="FOLDER",
        help="prepared data with valid.conll, test.conll and test1.conll (default: "
        "data-bin/conll05)")  # fmt: skip
    add("--markdown", type=Path, metavar="FILE", help="write the table there, not to the terminal")
    add("--latex", type=Path, metavar="FILE", help="write it for a paper, too")


def folders_of(system: System) -> list[Path]:
    """The folders of a system's runs, by name.

    Raises:
        UserError: if there is none.
    """
    found = sorted(Path(path) for path in glob.glob(system.pattern))
    folders = [path for path in found if path.is_dir()]
    if not folders:
        raise UserError(f"{system.name}: no folder matches {system.pattern!r}")
    return folders


def main(args: argparse.Namespace) -> None:
    """Score all runs and write the table."""
    check_outputs(args, "markdown", "latex")
    rows = published_rows()
    if args.runs:
        systems = [(system.name, folders_of(system)) for system in name_systems(args.runs)]
        gold = read_parts(args.gold)
        rows += [row_of(name, folders, gold, args.gold) for name, folders in systems]
    note = (
        "Published: Shen et al. 2019, table 4. Other rows: this project's, scored as by the "
        "official script; several runs: mean ± standard deviation."
    )
    if args.markdown is None:
        sys.stdout.write(to_markdown(rows, note))
    else:
        write_text(args.markdown, to_markdown(rows, note))
    if args.latex is not None:
        write_text(args.latex, to_latex(rows, note))
