.PHONY: help demo test format docs clean

help:
	@echo "make demo    train and evaluate a small prover (bash scripts/demo.sh)"
	@echo "make test    every check (bash scripts/test.sh); ARGS=... goes on to pytest"
	@echo "make format  let ruff format the code and fix what it can"
	@echo "make docs    the documentation as a site, in site/ (extra docs)"
	@echo "make clean   remove the virtual environment and the tools' caches; run folders stay"

demo:
	bash scripts/demo.sh

test:
	bash scripts/test.sh $(ARGS)

format:
	bash scripts/setup.sh dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# Needs the extra `docs`, which `bash scripts/setup.sh dev` installs too.
docs:
	$(if $(wildcard .venv/bin/mkdocs),.venv/bin/,)mkdocs build --strict --site-dir site

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
