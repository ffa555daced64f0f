"""`selfattn prepare`: corpora as files become folders that a training loads."""
