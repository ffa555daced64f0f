"""What the operators share; it knows none of them."""
