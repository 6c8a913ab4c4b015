#!/bin/sh
# Answers the first request, and ends at the second with many words.
read -r line
echo '{"id":1,"outcome":{"done":null}}'
read -r line
i=0
while [ $i -lt 5000 ]; do
    echo "this is line $i of many" >&2
    i=$((i + 1))
done
echo 'the disk is full' >&2
exit 3
