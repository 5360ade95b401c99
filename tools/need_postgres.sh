#!/bin/sh
# Sees to it that PostgreSQL is here for the tests that start one: Debian's package, where this runs as root. Starts no server.
set -eu

here() {
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1
}

here && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq </dev/null || true
  # Without the cluster that the package would make and start by itself: the tests make their own.
  mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql </dev/null >/dev/null || true
fi
here || echo "PostgreSQL is not here (Debian: apt-get install postgresql): the tests that need it will be skipped" >&2
