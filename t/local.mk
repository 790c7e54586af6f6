# SPDX-License-Identifier: Apache-2.0
include t/lib/local.mk
include t/model/local.mk
include t/lin/local.mk
if HAVE_CMOCKA
include t/unit/model.mk
include t/unit/base.mk
include t/unit/cells.mk
include t/unit/lock.mk
include t/unit/schema.mk
include t/unit/master.mk
include t/unit/meta.mk
include t/unit/rpc.mk
include t/unit/sstable.mk
include t/unit/log.mk
include t/unit/tablet.mk
include t/unit/server.mk
include t/unit/client.mk
include t/unit/fs.mk
include t/unit/bulk.mk
include t/unit/script.mk
endif
include t/bench/local.mk
include t/sim/local.mk
include t/proof.mk
include t/fuzz.mk
include t/check.mk
