#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that building and testing need and that are missing here, and for the tests schemathesis
# from PyPI, into build/contract-venv. Says what it will do first; does nothing, and needs no network, when all are there.
#
# usage: packages.sh build|test|runtime
set -eu

runtime="postgresql gcc libc6-dev"
build="make pkg-config libpq-dev libjson-c-dev libmicrohttpd-dev libgnutls28-dev libssl-dev libprotobuf-c-dev protobuf-c-compiler libxgboost-dev libcurl4-openssl-dev libseccomp-dev ca-certificates curl"
tests="patchelf procps openssl libcriterion-dev python3-venv chromium-headless-shell clang clang-format clang-tidy libclang-rt-14-dev"

case "${1:-build}" in
    runtime) wanted="$runtime" ;;
    build) wanted="$runtime $build" ;;
    test) wanted="$runtime $build $tests" ;;
    *) echo "usage: $0 build|test|runtime" >&2; exit 2 ;;
esac

missing=
for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done

# In an environment of its own, of one version, so that a run says the same tomorrow.
install_schemathesis() {
    [ "${1:-build}" = test ] || return 0
    venv=$(cd "$(dirname "$0")/.." && pwd)/build/contract-venv
    wanted_version=4.32.5
    [ "$("$venv/bin/schemathesis" --version 2>/dev/null)" != "schemathesis, version $wanted_version" ] || return 0
    echo "Installing with pip: schemathesis $wanted_version, into $venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "schemathesis==$wanted_version"
}
[ -n "$missing" ] || { install_schemathesis "$@"; exit; }

echo "Installing with apt:$missing"
as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Not root, and there is no sudo: install these packages yourself." >&2; exit 1; }
    as_root=sudo
fi
# Only PostgreSQL's programs are wanted: each server and test starts its own cluster, so none is made for the system.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    $as_root mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # the list is words on purpose
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
install_schemathesis "$@"
