"""Modules between fairseq's conventions and the core's."""
