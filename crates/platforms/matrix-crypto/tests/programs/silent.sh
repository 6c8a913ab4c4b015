#!/bin/sh
# Answers the first request only, and does not end.
read -r line
echo '{"id":1,"outcome":{"done":null}}'
exec sleep 100000
