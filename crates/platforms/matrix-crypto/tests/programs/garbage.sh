#!/bin/sh
# Answers the first request, and the others with something else.
read -r line
echo '{"id":1,"outcome":{"done":null}}'
read -r line
echo 'hello'
read -r line
