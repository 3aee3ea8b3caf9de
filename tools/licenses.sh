#!/bin/bash
# The terms of the libraries that a bundle carries: Debian's copyright file of each one's
# package, as FOLDER/PACKAGE.
#
# usage: tools/licenses.sh FOLDER LIBRARY...
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
for library in "$@"; do
	# dpkg knows a file by the name under which it was unpacked: /lib may be a link to /usr/lib.
	real=$(readlink -f "$library")
	package=$(dpkg -S "$real" 2>/dev/null || dpkg -S "${real#/usr}") || { echo "licenses: $library belongs to no package" >&2; exit 1; }
	package=${package%%:*}
	cp "/usr/share/doc/$package/copyright" "$folder/$package"
done
