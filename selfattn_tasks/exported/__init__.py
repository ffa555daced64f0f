"""Trained models as graphs of ONNX or of torch.export, which run without this project."""
