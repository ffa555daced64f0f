"""What a paper needs: runs over seeds, comparisons with tests, reports and pictures."""
