"""Trained models as folders of Hugging Face, and back."""
