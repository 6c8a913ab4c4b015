#!/bin/sh
# Checks the QQ fake with botpy, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-qq-fake qq_fake botpy 'qq-botpy==1.2.1'
