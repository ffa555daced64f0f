"""Words as characters: a vector of a word that training never saw, too."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from selfattn.models.multi_cnn import MultiCNN

from .vocabulary import PADDING, spread

_WIDTH, _WINDOW = 30, 3


def character_input(spellings: Sequence[Sequence[tuple[int, ...]]]) -> dict[str, Tensor]:
    """Make the arguments of :meth:`CharacterCNN.forward` for a batch, each different word once.

    Args:
        spellings: of each sentence's words, as ``Vocabulary.spell`` gives them.
    """
    numbers: dict[tuple[int, ...], int] = {}
    places = [[numbers.setdefault(word, len(numbers)) for word in words] for words in spellings]
    return {
        "spellings": torch.tensor(spread(list(numbers), PADDING)),
        "places": torch.tensor(spread(places, 0)),
    }


class CharacterCNN(nn.Module):
    """The maximum of a convolution over a word's characters (Ma and Hovy 2016, section 2.1).

    Windows of three characters, characters of 30 features, uniform from -sqrt(3 / 30) to
    sqrt(3 / 30), as there.

    Differs:
        Marks stand at both ends of a word, so that filters can tell a suffix. A ReLU follows the
        convolution. There is no dropout on characters. A long word is cut (``Vocabulary.spell``).

    Args:
        characters: how many there are, padding, unknown and marks included.
        features: filters, the width of the result.
    """

    def __init__(self, characters: int, features: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, _WIDTH)
        bound = (3 / _WIDTH) ** 0.5
        nn.init.uniform_(self.characters.weight, -bound, bound)
        self.filters = MultiCNN(_WIDTH, features, windows=(_WINDOW,), filters=features)

    def kept_parameters(self) -> list[nn.Parameter]:
        """All: a tagger's initialiser does not touch them."""
        return list(self.parameters())

    def forward(self, spellings: Tensor, places: Tensor) -> Tensor:
        """Vectors of a batch's words.

        Args:
            spellings: ``(U, W)``, the numbers of the characters of U words.
            places: ``(B, T)``, which of these words stands where.

        Returns:
            ``(B, T, features)``.
        """
        return self.filters(self.characters(spellings), spellings == PADDING)[places]
