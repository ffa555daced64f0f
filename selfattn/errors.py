"""The one exception for mistakes that a user can mend."""


class UserError(ValueError):
    """A mistake in a flag, a file or an argument.

    The message is one sentence that names the thing, its value and what is allowed. Commands print
    it without a traceback and exit with a code that is not 0.
    """
