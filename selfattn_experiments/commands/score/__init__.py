"""`selfattn score`: predictions against a reference, with the figures that papers report."""
