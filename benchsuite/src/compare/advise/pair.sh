#!/bin/sh
# One program reads the same again and again, while another one reads a lot once.
cd "$(dirname "$0")" || exit 1
for round in 1 2 3 4 5 6; do sha256sum hot/set; sleep 0.2; done &
head -c 2G four >/dev/null
wait
