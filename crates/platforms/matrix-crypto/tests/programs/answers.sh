#!/bin/sh
# Answers every request: a list for those that return one, nothing for the others. Shows the
# variables that it was given if it is asked for a verification.
while read -r line; do
    id=${line#*:}
    id=${id%%,*}
    case $line in
    *'"verifications"'* | *'"outgoing"'*) value='[]' ;;
    *'"encrypt"'*) value="{\"variables\":\"$(/usr/bin/env | /usr/bin/cut -d= -f1 | /usr/bin/sort | /usr/bin/tr '\n' ' ')\"}" ;;
    *) value=null ;;
    esac
    echo "{\"id\":$id,\"outcome\":{\"done\":$value}}"
done
