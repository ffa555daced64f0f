"""Learning-rate schedules, imported by the package itself."""
