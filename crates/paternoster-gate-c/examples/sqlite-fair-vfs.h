/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* sqlite-fair-vfs.h: SQLite's reads and syncs behind a gate; see sqlite-fair-vfs.c. */
#ifndef SQLITE_FAIR_VFS_H
#define SQLITE_FAIR_VFS_H

#include "paternoster.h"

/* Registers the VFS `name` over `below` (NULL: the default one). The gate has to outlive all
 * databases that are opened with it. A result of SQLite's. */
int fair_vfs_register(const char *name, const char *below, pn_gate *gate);

#endif
