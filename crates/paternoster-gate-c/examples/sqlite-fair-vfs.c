/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A VFS for SQLite that makes the databases of one program share their disk by weight: reads and
 * syncs wait for a permit of a gate. A database's URI gives its class and weight:
 *
 *     fair_vfs_register("fair", NULL, gate);
 *     sqlite3_open_v2("file:orders.db?vfs=fair&class=orders&weight=400", &db,
 *                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, NULL);
 *
 * Databases without a class share one of weight 100. A write takes no permit: it ends in the page
 * cache, and the device's work is the sync that follows. Reads that the page cache answers pay next
 * to nothing, but wait in line; a program with all its data in memory should use another VFS.
 *
 * A thread waits for a permit while it holds the database's locks. So connections of one database
 * should be of one class: otherwise a background reader would hold up a writer.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "sqlite-fair-vfs.h"

/* A class that was opened, until the end of the program. */
struct shared_class {
    struct shared_class *next;
    pn_class *cls;
    char name[64];
};

struct fair_vfs {
    sqlite3_vfs base; /* First: SQLite sees only this. */
    sqlite3_vfs *below;
    pn_gate *gate;
    pthread_mutex_t lock;
    struct shared_class *classes;
};

struct fair_file {
    sqlite3_file base; /* First; the file of the VFS below follows the structure. */
    pn_gate *gate;
    pn_class *cls;
};

static sqlite3_file *below(sqlite3_file *file)
{
    return (sqlite3_file *)((struct fair_file *)file + 1);
}

/* 0 if there is none: then the I/O goes without a permit, since failing it would be worse. */
static pn_permit permit(sqlite3_file *file, int op, sqlite3_int64 offset, int len)
{
    struct fair_file *own = (struct fair_file *)file;
    pn_permit got = 0;
    uint64_t at = offset < 0 ? PN_ANYWHERE : (uint64_t)offset;

    return pn_permit_wait_at(own->cls, op, at, (uint64_t)len, PN_FOREVER, &got) == PN_OK ? got : 0;
}

static void give_back(sqlite3_file *file, pn_permit own)
{
    pn_permit_give_back(((struct fair_file *)file)->gate, own);
}

static int fair_read(sqlite3_file *file, void *buffer, int len, sqlite3_int64 offset)
{
    pn_permit own = permit(file, PN_READ, offset, len);
    int result = below(file)->pMethods->xRead(below(file), buffer, len, offset);

    give_back(file, own);
    return result;
}

static int fair_sync(sqlite3_file *file, int flags)
{
    pn_permit own = permit(file, PN_FLUSH, -1, 0);
    int result = below(file)->pMethods->xSync(below(file), flags);

    give_back(file, own);
    return result;
}

static int fair_close(sqlite3_file *file)
{
    return below(file)->pMethods->xClose(below(file));
}

/* Calls that take no device time go straight through. */
static int fair_write(sqlite3_file *file, const void *buffer, int len, sqlite3_int64 offset)
{
    return below(file)->pMethods->xWrite(below(file), buffer, len, offset);
}

static int fair_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return below(file)->pMethods->xTruncate(below(file), size);
}

static int fair_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return below(file)->pMethods->xFileSize(below(file), size);
}

static int fair_lock(sqlite3_file *file, int level)
{
    return below(file)->pMethods->xLock(below(file), level);
}

static int fair_unlock(sqlite3_file *file, int level)
{
    return below(file)->pMethods->xUnlock(below(file), level);
}

static int fair_check_reserved(sqlite3_file *file, int *result)
{
    return below(file)->pMethods->xCheckReservedLock(below(file), result);
}

static int fair_control(sqlite3_file *file, int op, void *argument)
{
    return below(file)->pMethods->xFileControl(below(file), op, argument);
}

static int fair_sector_size(sqlite3_file *file)
{
    return below(file)->pMethods->xSectorSize(below(file));
}

static int fair_characteristics(sqlite3_file *file)
{
    return below(file)->pMethods->xDeviceCharacteristics(below(file));
}

static int fair_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **at)
{
    return below(file)->pMethods->xShmMap(below(file), page, size, extend, at);
}

static int fair_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return below(file)->pMethods->xShmLock(below(file), offset, count, flags);
}

static void fair_shm_barrier(sqlite3_file *file)
{
    below(file)->pMethods->xShmBarrier(below(file));
}

static int fair_shm_unmap(sqlite3_file *file, int remove)
{
    return below(file)->pMethods->xShmUnmap(below(file), remove);
}

/* Version 3 adds reads by mmap, which would bypass the gate. */
#define METHODS(version)                                                                         \
    {                                                                                            \
        .iVersion = version, .xClose = fair_close, .xRead = fair_read, .xWrite = fair_write,     \
        .xTruncate = fair_truncate, .xSync = fair_sync, .xFileSize = fair_file_size,             \
        .xLock = fair_lock, .xUnlock = fair_unlock, .xCheckReservedLock = fair_check_reserved,   \
        .xFileControl = fair_control, .xSectorSize = fair_sector_size,                           \
        .xDeviceCharacteristics = fair_characteristics, .xShmMap = fair_shm_map,                 \
        .xShmLock = fair_shm_lock, .xShmBarrier = fair_shm_barrier, .xShmUnmap = fair_shm_unmap, \
    }

static const sqlite3_io_methods methods[2] = { METHODS(1), METHODS(2) };

/* The class of that name, which is opened if there is none. */
static pn_class *find(struct fair_vfs *vfs, const char *name, sqlite3_int64 weight)
{
    struct shared_class *found;

    pthread_mutex_lock(&vfs->lock);
    for (found = vfs->classes; found && strcmp(found->name, name) != 0; found = found->next)
        ;
    if (!found && (found = calloc(1, sizeof *found))) {
        snprintf(found->name, sizeof found->name, "%s", name);
        found->cls = pn_class_open(vfs->gate, NULL, name, (uint32_t)weight, PN_NORMAL);
        found->next = vfs->classes;
        vfs->classes = found;
    }
    pthread_mutex_unlock(&vfs->lock);
    return found ? found->cls : NULL;
}

static int fair_open(sqlite3_vfs *base, sqlite3_filename name, sqlite3_file *file, int flags,
                     int *out_flags)
{
    const int with_uri = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
    struct fair_vfs *vfs = (struct fair_vfs *)base;
    struct fair_file *own = (struct fair_file *)file;
    const char *of = "others";
    sqlite3_int64 weight = 100;
    int result;

    if (name && (flags & with_uri)) {
        const char *said = sqlite3_uri_parameter(name, "class");

        of = said ? said : of;
        weight = sqlite3_uri_int64(name, "weight", weight);
    }
    memset(own, 0, sizeof *own);
    result = vfs->below->xOpen(vfs->below, name, below(file), flags, out_flags);
    /* SQLite closes a file that failed to open if it has methods. */
    if (below(file)->pMethods) {
        own->gate = vfs->gate;
        own->cls = find(vfs, of, weight);
        own->base.pMethods = &methods[below(file)->pMethods->iVersion >= 2];
    }
    return result;
}

/* Everything that is not a file goes straight through. */
static sqlite3_vfs *under(sqlite3_vfs *vfs)
{
    return ((struct fair_vfs *)vfs)->below;
}

static int fair_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    return under(vfs)->xDelete(under(vfs), name, sync);
}

static int fair_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
    return under(vfs)->xAccess(under(vfs), name, flags, result);
}

static int fair_full_path(sqlite3_vfs *vfs, const char *name, int room, char *path)
{
    return under(vfs)->xFullPathname(under(vfs), name, room, path);
}

static int fair_randomness(sqlite3_vfs *vfs, int len, char *bytes)
{
    return under(vfs)->xRandomness(under(vfs), len, bytes);
}

static int fair_sleep(sqlite3_vfs *vfs, int microseconds)
{
    return under(vfs)->xSleep(under(vfs), microseconds);
}

static int fair_time(sqlite3_vfs *vfs, double *now)
{
    return under(vfs)->xCurrentTime(under(vfs), now);
}

static int fair_time_64(sqlite3_vfs *vfs, sqlite3_int64 *now)
{
    return under(vfs)->xCurrentTimeInt64(under(vfs), now);
}

static int fair_last_error(sqlite3_vfs *vfs, int room, char *text)
{
    return under(vfs)->xGetLastError(under(vfs), room, text);
}

int fair_vfs_register(const char *name, const char *below_name, pn_gate *gate)
{
    sqlite3_vfs *lower = sqlite3_vfs_find(below_name);
    struct fair_vfs *vfs = calloc(1, sizeof *vfs);

    if (!lower || !vfs) {
        free(vfs);
        return lower ? SQLITE_NOMEM : SQLITE_NOTFOUND;
    }
    vfs->base = (sqlite3_vfs){
        /* Version 3 adds the system calls, version 1 has no time in 64 bits. */
        .iVersion = lower->iVersion < 2 ? 1 : 2,
        .szOsFile = (int)sizeof(struct fair_file) + lower->szOsFile,
        .mxPathname = lower->mxPathname,
        .zName = name,
        .xOpen = fair_open,
        .xDelete = fair_delete,
        .xAccess = fair_access,
        .xFullPathname = fair_full_path,
        .xRandomness = fair_randomness,
        .xSleep = fair_sleep,
        .xCurrentTime = fair_time,
        .xGetLastError = fair_last_error,
        .xCurrentTimeInt64 = fair_time_64,
    };
    vfs->below = lower;
    vfs->gate = gate;
    pthread_mutex_init(&vfs->lock, NULL);
    return sqlite3_vfs_register(&vfs->base, 0);
}
