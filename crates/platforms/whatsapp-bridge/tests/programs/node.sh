#!/bin/sh
# Stands in for Node.js: tells the version that the test chose, and runs the test's script in place
# of the package.
PATH=/usr/bin:/bin
if [ "$1" = --version ]; then
    exec cat "$HOME/node-version"
fi
printf '%s\n' "$*" >"$HOME/bridge-arguments"
pwd >"$HOME/bridge-folder"
exec sh "$HOME/bridge.sh"
