"""Train with fairseq: fairseq-train, with this plugin as its --user-dir.

Examples, a translation model and a tagger:

  selfattn train data-bin/my/data-bin --arch transformer_mtsa --optimizer adam --lr 0.0005 \\
      --max-tokens 4096 --max-update 3000 --save-dir runs/my
  selfattn train data-bin/srl --task srl_tagging --arch deepatt_mtsa --max-update 3000 --dry-run

The command line of fairseq-train is printed first. All flags but --dry-run are fairseq-train's or
the plugin's; `fairseq-train --user-dir "$(selfattn-user-dir)" --arch transformer_mtsa --help` lists
both.
"""

import argparse
import importlib.util
import os
import shlex
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.cli import fairseq_command

from ..process import plugin_folder


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only print the command line")


def main(args: argparse.Namespace) -> None:
    """Become fairseq-train, so that signals and the exit code are its own."""
    if not args.others:
        args.refuse("DATA is missing, the folder that `selfattn prepare` made for fairseq-train")
    words = list(args.others)
    given = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    given.add_argument("--user-dir")
    folder = given.parse_known_args(words)[0].user_dir
    if folder is None:
        folder = str(plugin_folder("--user-dir"))
        words += ["--user-dir", folder]
    print(shlex.join(["fairseq-train", *words]), flush=True)
    if args.dry_run:
        return
    fairseq = importlib.util.find_spec("fairseq")
    if fairseq is None:
        raise UserError("training needs fairseq: `selfattn info` says how to get it")
    inside = Path(str(fairseq.origin)).parent  # where fairseq looks, too
    if not any(Path(place, folder).exists() for place in ("", inside, inside.parent)):
        raise UserError(f"--user-dir {folder} does not exist; without it, this plugin is used")
    command = fairseq_command("train", *words)
    os.execv(command[0], command)
