"""Trained models as graphs of ONNX or of torch.export, which run without this project."""

FACTS = "export.json"  # what a program must know beside the graphs
