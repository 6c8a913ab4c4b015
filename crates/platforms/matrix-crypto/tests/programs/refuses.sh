#!/bin/sh
# Refuses the first request.
read -r line
echo '{"id":1,"outcome":{"failed":{"refused":"the store is locked"}}}'
read -r line
