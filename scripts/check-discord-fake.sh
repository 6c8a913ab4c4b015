#!/bin/sh
# Drives the Discord fake with discord.py, so that it is right by code we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" discord_fake discord 'discord.py==2.7.1'
