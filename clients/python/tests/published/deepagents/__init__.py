"""The shape of the package deepagents that corral.adapters.deepagents builds on, for tests where it is not installed."""
