"""The judge of Lean: the workers, the verdict rule, the replay in the kernel, and the walls."""
