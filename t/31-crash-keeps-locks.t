#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# After a power cut, SIGKILL or I/O error at any operation, the local lock
# service has every change that it acknowledged.
cd "${BUILD:-.}" || exit 1
exec t/crash/crash_lock "${CRASH_LOCK_RUNS:-100}" "${CRASH_SEED:-1}"
