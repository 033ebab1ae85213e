import Benchmark.Basic
