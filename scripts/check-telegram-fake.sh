#!/bin/sh
# Checks the Telegram fake with python-telegram-bot, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-telegram-fake telegram_fake 'telegram, tornado' 'python-telegram-bot[webhooks]==22.8'
