"""Tests of the package corral, against a gateway of their own: python3 -m unittest."""
