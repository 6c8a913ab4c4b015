#!/bin/sh
# Checks e-mail with Python's own mail clients, which we did not write: against the fake, and
# through real servers against a running gateway.
# Needs cargo, and the programs that scripts/install-test-servers.sh installs; for those python3
# with venv, and a package index.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
scripts/install-test-servers.sh
$CARGO build --quiet -p nanobot-channel-email-fake --example mail_fake
$CARGO build --quiet -p nanobot-testkit --example scripted_model
$CARGO build --quiet -p nanobot
exec .cache/mail-venv/bin/python scripts/check_email.py "${CARGO_TARGET_DIR:-target}/debug"
