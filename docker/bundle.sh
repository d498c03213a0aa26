#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes one relocatable archive for hosts without network or packages: the program, the libraries it needs beyond glibc,
# and PostgreSQL's server. Unpack anywhere and run bin/warptune; the host needs glibc of this system's version or later,
# and for tuning an NVIDIA driver with NVRTC, or a C compiler.
#
# usage: bundle.sh PROGRAM ARCHIVE.tar.xz
set -eu

program=$1
archive=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/warptune-bundle.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/warptune

command -v patchelf >/dev/null || { echo "patchelf is missing: apt-get install patchelf" >&2; exit 1; }
postgres=$(ls -d /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)
pg_lib=$(dirname "$(dirname "$postgres")")  # /usr/lib/postgresql/15
version=$(basename "$pg_lib")

# PostgreSQL finds its files relative to its own path, when the tree below the common prefix looks as it was built.
mkdir -p "$root/bin" "$root/lib" "$root/pgsql/lib/postgresql/$version/bin" "$root/pgsql/lib/postgresql/$version/lib" \
    "$root/pgsql/share/postgresql"
cp "$program" "$root/bin/warptune"
cp "$pg_lib/bin/postgres" "$pg_lib/bin/initdb" "$root/pgsql/lib/postgresql/$version/bin/"
cp "$pg_lib/lib/plpgsql.so" "$pg_lib/lib/dict_snowball.so" "$root/pgsql/lib/postgresql/$version/lib/"
cp -rL "/usr/share/postgresql/$version" "$root/pgsql/share/postgresql/"
rm -rf "$root/pgsql/share/postgresql/$version/man" "$root/pgsql/share/postgresql/$version/extension"
mkdir -p "$root/pgsql/share/postgresql/$version/extension"
cp /usr/share/postgresql/"$version"/extension/plpgsql* "$root/pgsql/share/postgresql/$version/extension/"
ln -s "lib/postgresql/$version/bin" "$root/pgsql/bin"

# Everything they link except glibc itself, which must be the host's.
for binary in "$root/bin/warptune" "$root"/pgsql/lib/postgresql/"$version"/*/*; do
    ldd "$binary" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
done | sort -u | while read -r library; do
    case $(basename "$library") in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | ld-linux*) ;;
        *) cp -L "$library" "$root/lib/" ;;
    esac
done

strip --strip-unneeded "$root/bin/warptune" 2>/dev/null || true
patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$root/bin/warptune"
for library in "$root"/lib/*; do
    patchelf --force-rpath --set-rpath '$ORIGIN' "$library"
done
for binary in "$root"/pgsql/lib/postgresql/"$version"/*/*; do
    patchelf --force-rpath --set-rpath '$ORIGIN/../../../../../lib' "$binary"
done
cp gpu/module/runtime/warptune_module.h LICENSE README.md tests/demo.sh docker/warptune.service docker/warptune.socket "$root/"

mkdir -p "$(dirname "$archive")"
tar -C "$work" --owner=0 --group=0 -cJf "$archive" warptune
echo "$archive: $(du -m "$archive" | cut -f1) MB"
