#!/bin/sh
# Lets Python's own mail clients talk to what the tests of e-mail talk to: to the fake, so that it is right by
# code we did not write, and through real servers to a running gateway.
# Needs cargo and what scripts/install-test-servers.sh installs; python3 with venv and a package index for that.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
scripts/install-test-servers.sh
$CARGO build --quiet -p nanobot-testkit --example mail_fake --example scripted_model
$CARGO build --quiet -p nanobot
exec .cache/mail-venv/bin/python scripts/check_email.py "${CARGO_TARGET_DIR:-target}/debug"
