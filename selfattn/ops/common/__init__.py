"""What the operators share; it depends on none of them."""
