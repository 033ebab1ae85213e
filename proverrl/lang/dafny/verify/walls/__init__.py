"""Walls: what is asked of an accepted proof that needs to know no bug of Dafny."""
