"""The generator of the Dafny curriculum: ``stream`` draws, the other modules write programs."""
