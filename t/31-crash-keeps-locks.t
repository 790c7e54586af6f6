#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Power loss, SIGKILL and I/O errors at every operation of the local lock service.
cd "${BUILD:-.}" || exit 1
exec t/crash/crash_lock "${CRASH_LOCK_RUNS:-100}" "${CRASH_SEED:-1}"
