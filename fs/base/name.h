/* SPDX-License-Identifier: Apache-2.0 */
/* Names are in engine/base. */
#include "engine/base/name.h"
