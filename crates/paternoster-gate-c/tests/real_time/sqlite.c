/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SQLite's commits on a disk whose syncs take 2 ms, four at a time, first come, first served.
 * Three classes of databases, one thread each: `a` has 4 that commit without a pause, `b` 12, and
 * `paced` one that commits every 50 ms. Prints commits a second of a and b, the median and the
 * 99th percentile of paced in us.
 *
 *     sqlite VFS WARM SECONDS FOLDER      VFS: unix, or fair; WARM seconds are not counted
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sqlite3.h>

#include "../../examples/sqlite-fair-vfs.h"

enum { A = 4, B = 12, THREADS = A + B + 1, AT_ONCE = 4, KEPT = 1000 };

static const char *vfs, *folder;
static atomic_ulong commits[3];
static atomic_int stop, failed;
static uint64_t waited[KEPT];
static size_t waits;

/* The disk. SQLite's library calls this program's own fsync. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long came, began, ended;

int fsync(int file)
{
    const struct timespec work = { 0, 2000000 };
    unsigned long own;

    (void)file;
    pthread_mutex_lock(&lock);
    own = came++;
    while (began != own || began - ended >= AT_ONCE)
        pthread_cond_wait(&changed, &lock);
    began++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    nanosleep(&work, NULL);
    pthread_mutex_lock(&lock);
    ended++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fdatasync(int file)
{
    return fsync(file);
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static void *commit_all(void *argument)
{
    static const char *names[3] = { "a", "b", "paced" };
    const struct timespec pause = { 0, 50000000 };
    int number = *(int *)argument, of = number < A ? 0 : number < A + B ? 1 : 2;
    char uri[512];
    sqlite3 *db = NULL;

    snprintf(uri, sizeof uri, "file:%s/%d.db?vfs=%s&class=%s", folder, number, vfs, names[of]);
    if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, NULL)
        || sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                            "CREATE TABLE t(x); PRAGMA wal_autocheckpoint=0", NULL, NULL, NULL)) {
        fprintf(stderr, "%s: %s\n", uri, sqlite3_errmsg(db));
        failed = 1;
    }
    while (!stop && !failed) {
        uint64_t since = now();

        if (sqlite3_exec(db, "INSERT INTO t VALUES(1)", NULL, NULL, NULL))
            failed = 1;
        commits[of]++;
        if (of == 2) {
            if (waits < KEPT)
                waited[waits++] = now() - since;
            nanosleep(&pause, NULL);
        }
    }
    sqlite3_close(db);
    return NULL;
}

static int order(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

    return (a > b) - (a < b);
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    pn_gate *gate = pn_gate_open(NULL, NULL);
    struct timespec while_it_learns = { 0, 0 }, run = { 0, 0 };
    unsigned long before[2];

    if (count != 5 || fair_vfs_register("fair", NULL, gate))
        return 2;
    vfs = arguments[1];
    while_it_learns.tv_sec = atoi(arguments[2]);
    run.tv_sec = atoi(arguments[3]);
    folder = arguments[4];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, commit_all, &numbers[i]))
            return 2;
    }
    nanosleep(&while_it_learns, NULL);
    before[0] = commits[0];
    before[1] = commits[1];
    waits = 0;
    nanosleep(&run, NULL);
    stop = 1;
    before[0] = commits[0] - before[0];
    before[1] = commits[1] - before[1];
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    qsort(waited, waits, sizeof *waited, order);
    printf("%lu %lu %lu %lu\n", before[0] / (unsigned long)run.tv_sec,
           before[1] / (unsigned long)run.tv_sec, (unsigned long)waited[waits / 2],
           (unsigned long)waited[waits * 99 / 100]);
    pn_gate_close(gate);
    return failed;
}
