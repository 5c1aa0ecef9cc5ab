#!/bin/sh
# Starts Valkey with a password that stands in a file, so neither in the arguments nor in the environment of the process.
set -eu
secret=${SECRET:-/run/secrets/authgate/valkey-password}
password=$(cat "$secret")
case $password in
'' | *[!0-9A-Za-z]*)
	echo "start.sh: the password in $secret must be letters and digits, such as openssl rand -hex 32 makes" >&2
	exit 1
	;;
esac

# noeviction: a full store is an outage that the gateway sees; evicting would forget locks one by one, unseen.
# The rights of the user are those of docs/operations.md, "Valkey".
exec valkey-server - <<EOF
port ${PORT:-6379}
dir ${DATA:-/data}
protected-mode no
appendonly yes
maxmemory ${MAXMEMORY:-256mb}
maxmemory-policy noeviction
user default off
user authgate on >$password ~gateway:* resetchannels &gateway:* -@all +@connection +time +get +set +exists +del +mget +hset +hget +hdel +hkeys +zadd +zrem +zrange +zscan +scan +pexpire +pttl +eval +evalsha +subscribe +publish +config|get
EOF
