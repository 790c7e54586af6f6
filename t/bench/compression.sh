#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compression.sh [TABLETBENCH [OPTIONS]]: tabletbench compression, with its
# corpora: where the two documentation packages are neither installed nor in
# TABLETFS_DOCS, apt-get fetches them into a directory that is removed again.
set -eu
bench=${1:-t/bench/tabletbench}
[ $# -eq 0 ] || shift
html=usr/share/doc/python3.11/html
if [ ! -d "${TABLETFS_DOCS:-}/$html" ]; then
	docs=$(mktemp -d /var/tmp/tabletfs-docs-XXXXXX)
	trap 'rm -rf "$docs"' EXIT INT TERM
	if (cd "$docs" && apt-get download python3.11-doc postgresql-doc-15 >&2 && for p in *.deb; do dpkg -x "$p" .; done); then
		TABLETFS_DOCS=$docs
		export TABLETFS_DOCS
	else
		echo "compression.sh: apt-get cannot fetch python3.11-doc and postgresql-doc-15" >&2
	fi
fi
"$bench" compression "$@"
