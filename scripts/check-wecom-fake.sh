#!/bin/sh
# Checks the WeCom fake with wecom-aibot-sdk-python, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-wecom-fake wecom_fake wecom_aibot_sdk 'wecom-aibot-sdk-python==0.1.7'
