"""The guided tour that ``scripts/demo.py`` starts: real text, a small model, one closing screen."""
