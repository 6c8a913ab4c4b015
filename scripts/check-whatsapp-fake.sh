#!/bin/sh
# Checks the fake of the WhatsApp bridge with a client that knows only the protocol. The bridge itself
# is held by the same checks.
set -eu
CHECK=check_whatsapp_bridge.py
export CHECK
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-whatsapp-fake whatsapp_fake websockets 'websockets==16.0'
