#!/bin/sh
# Drives the scripted model with the vendors' own Python clients, so that it is right by code we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" scripted_model 'anthropic, openai' anthropic openai
