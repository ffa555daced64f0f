"""Writers of files that the project reads."""

from selfattn_tasks.srl.formats.brackets import format_brackets
from selfattn_tasks.srl.formats.lines import lines_of


def write_words(path, sentences):
    """The words file that belongs to a props file."""
    path.write_text("".join("\n".join(s.words) + "\n\n" for s in sentences))


def write_lines(path, sentences):
    """One proposition a line."""
    path.write_text("".join(f"{line}\n" for line in lines_of(sentences)))


def write_conll12(path, sentences, document="document"):
    """One CoNLL-2012 document; what a sentence does not hold is ``-`` or ``*``."""
    text = [f"#begin document ({document}); part 000\n"]
    for sentence in sentences:
        lemmas = {p.predicate: p.lemma for p in sentence.propositions}
        columns = [format_brackets(p.spans, len(sentence.words)) for p in sentence.propositions]
        for i, word in enumerate(sentence.words):
            lemma = lemmas.get(i, "-") or word.lower()
            frameset = "01" if i in lemmas else "-"
            row = [document, "0", str(i), word, "-", "*", lemma, frameset, "-", "-", "*"]
            text.append("   ".join([*row, *(column[i] for column in columns), "-"]) + "\n")
        text.append("\n")
    path.write_text("".join([*text, "#end document\n"]))


def write_encoder(folder, words):
    """Write a tiny BERT with random weights, and its tokenizer, which knows these pieces."""
    import transformers

    folder.mkdir()
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=32)
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=34, hidden_dropout_prob=0.5,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
