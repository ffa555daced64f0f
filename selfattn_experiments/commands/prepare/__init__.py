"""`selfattn prepare`: corpora as files become folders that training loads."""
