"""Criterions, imported by the package itself."""
