"""How far two right computations of one number may lie apart, on any processor.

A processor adds in its own order: as its vectors are wide, and as many threads as there are. In
any order a sum of n products in floats of unit roundoff u is off by at most n * u of the products'
sizes (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1), and the errors
of products after one another add up. The tests' models are two layers of six products (queries and
keys, scores, values, output, gate and up, down) and an output layer: 13 products of at most 64
terms, with logits of sizes up to 2.
"""

FLOAT32 = 1e-4
"""For log-probabilities and their means: 13 * 64 * 2^-24 * 2."""

BFLOAT16 = 0.1
"""The same in bfloat16. Sums are made in float32, but each product and what is done with it (norm,
activation, addition) is rounded: 26 * 2^-9 * 2."""

FLOAT64 = 1e-6
"""For losses and gradients of a model in float64, as a share of the largest of them. What is added
up there is off by less than 1e-10; only the angles of the positions are float32, in which
transformers computes them, and may be off by a last bit, 2^-23."""

MOVED = 1e-6
"""For the mean over all weights after an update by Adam, which moves each by about the learning
rate (1e-4 to 1e-3) whatever its gradient's size is: where a gradient is zero but for rounding, the
move is rounding too. An update of other gradients moves most weights otherwise."""
