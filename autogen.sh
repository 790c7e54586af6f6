#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from configure.ac (a git checkout has none).
set -e
cd "$(dirname "$0")"
mkdir -p build-aux
autoreconf -fi
