.PHONY: docs test

# Needs the extra `docs`, which `bash scripts/setup.sh dev` installs too.
docs:
	$(if $(wildcard .venv/bin/mkdocs),.venv/bin/,)mkdocs build --strict --site-dir site

test:
	bash scripts/test.sh
