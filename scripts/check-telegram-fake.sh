#!/bin/sh
# Drives the Telegram fake with python-telegram-bot, so that it is right by code we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" telegram_fake 'telegram, tornado' 'python-telegram-bot[webhooks]==22.8'
