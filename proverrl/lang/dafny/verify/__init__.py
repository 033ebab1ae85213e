"""What judges Dafny: the workers, the verdict rule, and the walls behind an accepted proof."""
