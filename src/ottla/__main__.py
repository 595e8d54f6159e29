"""`python -m ottla` is `ottla`."""

from ottla.cli.main import main

raise SystemExit(main())
