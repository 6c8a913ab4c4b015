#!/bin/sh
# Checks the Feishu fake with lark-oapi, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-feishu-fake feishu_fake lark_oapi 'lark-oapi==1.7.5'
