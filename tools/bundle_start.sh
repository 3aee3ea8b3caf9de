#!/bin/sh
# hone of a bundle (make bundle): starts the program, unless this machine's C library is older than
# the one it was made for.
home=$(dirname "$(readlink -f "$0")")/lib/hone
needs=$(cat "$home/glibc") || exit 1
has=$(getconf GNU_LIBC_VERSION 2>/dev/null)
has=${has#glibc }
# What the kernel tells of no C library is not glibc: musl, for one.
if [ -z "$has" ] || [ "$(printf '%s\n%s\n' "$needs" "$has" | sort -V | head -n 1)" != "$needs" ]; then
	echo "hone: this bundle was made for glibc $needs or newer, this machine has ${has:-another C library}; make the bundle there, or take a newer system (Debian 12, Ubuntu 24.04)" >&2
	exit 1
fi
exec "$home/hone" "$@"
