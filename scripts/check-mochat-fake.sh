#!/bin/sh
# Checks the Mochat fake with python-socketio, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-mochat-fake mochat_fake socketio,websocket,msgpack,requests \
    'python-socketio[client]==5.18.1' 'msgpack==1.2.4'
