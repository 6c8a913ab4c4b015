#!/bin/sh
# Stands in for npm: notes how it was called, and runs the test's script.
/usr/bin/env >"$HOME/npm-environment"
printf '%s\n' "$*" >>"$HOME/npm-arguments"
PATH=/usr/bin:/bin
exec sh "$HOME/npm.sh"
