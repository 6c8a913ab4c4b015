#!/bin/sh
# Checks the Slack fake with slack-sdk, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-slack-fake slack_fake 'slack_sdk, aiohttp' 'slack-sdk==3.47.0' 'aiohttp>=3.9,<4'
