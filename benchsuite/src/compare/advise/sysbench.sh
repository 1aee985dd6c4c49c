#!/bin/sh
# A server of MariaDB with clients, from start to end.
cd "$(dirname "$0")" || exit 1
mariadbd --no-defaults --user=root --datadir="$PWD/maria" --socket="$PWD/maria/socket" --pid-file="$PWD/maria/pid" --skip-networking --innodb-buffer-pool-size=128M 2>/dev/null &
server=$!
until [ -S maria/socket ]; do kill -0 $server || exit 1; sleep 0.05; done
sysbench --mysql-socket="$PWD/maria/socket" --mysql-user=root --mysql-db=test --tables=4 --table-size=400000 --rand-type=uniform "$@"
kill $server && wait $server
