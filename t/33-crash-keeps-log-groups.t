#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# After a power cut during the commit log's group commit, with or without an
# injected I/O error, the log has every acknowledged record.
cd "${BUILD:-.}" || exit 1
exec t/crash/crash_log "${CRASH_LOG_RUNS:-600}" "${CRASH_SEED:-1}"
