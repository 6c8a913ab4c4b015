#!/bin/sh
# Checks the scripted model with the vendors' Python clients, which we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-testkit scripted_model 'anthropic, openai' anthropic openai
