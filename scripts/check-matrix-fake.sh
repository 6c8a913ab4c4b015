#!/bin/sh
# Checks the Matrix fake with matrix-nio and its encryption, a client that we did not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-channel-matrix-fake matrix_fake nio,nio.crypto,vodozemac 'matrix-nio[e2e]==0.26.0'
