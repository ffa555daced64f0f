"""Running a grid: places for runs, their processes, and what a user sees of them meanwhile."""
