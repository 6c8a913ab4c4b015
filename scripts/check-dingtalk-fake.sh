#!/bin/sh
# Checks the DingTalk fake with dingtalk-stream, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-dingtalk-fake dingtalk_fake dingtalk_stream 'dingtalk-stream==0.24.3'
