#!/bin/sh
# A server of PostgreSQL with clients, from start to end.
cd "$(dirname "$0")" && bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
as_user() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
as_user "$bin/pg_ctl" -D pg -w -l /dev/null -o "-k $PWD/pg -c listen_addresses= -c shared_buffers=128MB" start >/dev/null || exit 1
as_user "$bin/pgbench" -h "$PWD/pg" -U postgres "$@" postgres
as_user "$bin/pg_ctl" -D pg -w -m fast stop >/dev/null
