#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Power loss under the commit log's group commit, with and without an injected error.
cd "${BUILD:-.}" || exit 1
exec t/crash/crash_log "${CRASH_LOG_RUNS:-600}" "${CRASH_SEED:-1}"
