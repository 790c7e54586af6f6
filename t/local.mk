# SPDX-License-Identifier: Apache-2.0
if HAVE_CMOCKA
endif
