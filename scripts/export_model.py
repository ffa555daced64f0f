"""`selfattn export` in a clone; --help shows its flags."""

import _verb

if __name__ == "__main__":
    _verb.main(__file__)
