# ProverRL with Dafny: docker build -t proverrl . && docker run --rm proverrl
# With Lean too:       docker build --target lean -t proverrl-lean .
# On your own folder, as yourself (docs/docker.md):
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" -v proverrl-cache:/cache proverrl verify .
FROM mcr.microsoft.com/dotnet/sdk:8.0-bookworm-slim AS tool
RUN dotnet tool install dafny --version 4.11.0 --tool-path /opt/dafny

# Debian 12 with the runtime that the tool needs.
FROM mcr.microsoft.com/dotnet/runtime:8.0-bookworm-slim AS dafny

RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates git libgomp1 python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home prover \
    && mkdir --mode 1777 /data /cache

WORKDIR /opt/proverrl

# torch alone first: this layer is built again only when a pin changes.
COPY constraints.txt ./
RUN python3 -m venv /opt/proverrl/.venv \
    && .venv/bin/pip install --no-cache-dir -c constraints.txt torch

# The tool brings no z3. This is the one that Dafny 4.11 is released with: /opt/dafny/bin/z3.
COPY --from=tool /opt/dafny /opt/dafny
RUN .venv/bin/pip install --no-cache-dir --no-deps --target /opt/dafny z3-solver==4.12.1.0

COPY pyproject.toml README.md LICENSE ./
COPY proverrl proverrl
COPY configs configs
COPY dafny dafny
COPY examples examples
RUN .venv/bin/pip install --no-cache-dir -c constraints.txt -e ".[dafny,train]"

ENV PATH="/opt/dafny:/opt/dafny/bin:/opt/proverrl/.venv/bin:$PATH"
ENV DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1
# Any --user may write there; one that the image does not know has no home.
ENV XDG_CACHE_HOME=/cache HF_HOME=/cache/huggingface USER=prover
USER prover
WORKDIR /data

ENTRYPOINT ["proverrl"]
CMD ["doctor"]

# elan and the release that lean/lean-toolchain pins; not Mathlib.
FROM dafny AS lean
USER root
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends curl \
    && rm -rf /var/lib/apt/lists/*
COPY --chown=prover lean /opt/proverrl/lean
COPY scripts/setup_lean.sh /opt/proverrl/scripts/
USER prover
ENV ELAN_HOME=/home/prover/.elan
ENV PATH="/home/prover/.elan/bin:$PATH"
RUN bash /opt/proverrl/scripts/setup_lean.sh

# What is built without --target is the last stage: the one without Lean.
FROM dafny
