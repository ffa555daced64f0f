"""Words, their numbers and their vectors, for every task that reads words as they stand."""
