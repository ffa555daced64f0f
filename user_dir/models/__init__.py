"""Your models; every module in this folder is imported and registers its architectures."""
