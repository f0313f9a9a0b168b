"""Corral as the sandbox of other frameworks. Each module needs the framework that it is for."""
