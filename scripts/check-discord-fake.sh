#!/bin/sh
# Checks the Discord fake with discord.py, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-discord-fake discord_fake discord 'discord.py==2.7.1'
