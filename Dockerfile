# ProverRL with Dafny: docker build -t proverrl . && docker run --rm proverrl
# With Lean too:       docker build --target lean -t proverrl-lean .
# Work in a mounted folder: docker run --rm -v "$PWD:/home/prover/data" proverrl verify data/a.dfy
FROM debian:bookworm-slim AS dafny

RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates dafny git libgomp1 python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home prover

WORKDIR /opt/proverrl

# torch alone first: this layer is built again only when a pin changes.
COPY constraints.txt ./
RUN python3 -m venv /opt/proverrl/.venv \
    && .venv/bin/pip install --no-cache-dir -c constraints.txt torch

COPY pyproject.toml README.md LICENSE ./
COPY proverrl proverrl
COPY configs configs
COPY dafny dafny
COPY examples examples
RUN .venv/bin/pip install --no-cache-dir -c constraints.txt -e ".[dafny]"

ENV PATH="/opt/proverrl/.venv/bin:$PATH"
USER prover
WORKDIR /home/prover

ENTRYPOINT ["proverrl"]
CMD ["doctor"]

# elan and the release that lean/lean-toolchain pins; neither the REPL nor Mathlib.
FROM dafny AS lean
USER root
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends curl \
    && rm -rf /var/lib/apt/lists/*
COPY --chown=prover lean /opt/proverrl/lean
COPY scripts/setup_lean.sh /opt/proverrl/scripts/
USER prover
ENV PATH="/home/prover/.elan/bin:$PATH"
RUN bash /opt/proverrl/scripts/setup_lean.sh

# What is built without --target is the last stage: the one without Lean.
FROM dafny
