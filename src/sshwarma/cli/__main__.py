"""`python -m sshwarma.cli`."""

import sys

from sshwarma.cli.main import main

sys.exit(main())
