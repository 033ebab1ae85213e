"""The judge of Dafny: the workers, the verdict rule, and the walls behind an accepted proof."""
