/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A filter for nbdkit that makes any plugin fair by client: each request waits for a permit of a
 * gate, holds it while the plugin works, and gives it back. The gate finds out at run time how many
 * requests to give the plugin at a time.
 *
 *     cc -shared -fPIC nbdkit-fair-filter.c -o nbdkit-fair-filter.so -Wl,-z,nodelete \
 *        $(pkg-config --cflags --libs nbdkit paternoster)
 *     nbdkit --filter=./nbdkit-fair-filter.so file /dev/sdb fair-by=export fair-weight=db:400
 *
 * Parameters:
 *     fair-by=client       who shares: an address, or on a unix socket a user (the default)
 *     fair-by=connection   each connection is for itself
 *     fair-by=export       all connections that ask for the same export name
 *     fair-weight=NAME:N   N compared with the others' 100; NAME as `nbdkit -v` shows it
 *
 * nbdkit's own lock comes before all filters. A plugin that does one request at a time would hold
 * it while others wait for permits, so the filter refuses it; serve it from one nbdkit, and this
 * filter from a second one in front, over the plugin `nbd`.
 *
 * A filter loads only into the version of nbdkit that it was compiled for.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <nbdkit-filter.h>

#include "paternoster.h"

enum { NAME_MOST = 256 };

/* A client that shares: exists as long as it has connections. */
struct sharer {
    struct sharer *next;
    pn_class *cls;
    unsigned connections;
    char name[NAME_MOST];
};

/* A weight that the command line gave. */
struct weight {
    struct weight *next;
    const char *name;
    size_t len;
    unsigned weight;
};

static enum { BY_CLIENT, BY_CONNECTION, BY_EXPORT } by;
static struct weight *weights;
static pn_gate *gate;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct sharer *sharers;
static unsigned long connections;

static int fair_weight(const char *value)
{
    const char *colon = strrchr(value, ':');
    struct weight *weight;

    if (!colon) {
        nbdkit_error("fair-weight=%s: NAME:N is expected", value);
        return -1;
    }
    weight = calloc(1, sizeof *weight);
    if (!weight) {
        nbdkit_error("no memory for fair-weight");
        return -1;
    }
    if (nbdkit_parse_unsigned("fair-weight", colon + 1, &weight->weight) < 0) {
        free(weight);
        return -1;
    }
    weight->name = value; /* The server keeps it. */
    weight->len = (size_t)(colon - value);
    weight->next = weights;
    weights = weight;
    return 0;
}

static int fair_config(nbdkit_next_config *next, nbdkit_backend *data, const char *key,
                       const char *value)
{
    if (strcmp(key, "fair-weight") == 0)
        return fair_weight(value);
    if (strcmp(key, "fair-by") != 0)
        return next(data, key, value);
    if (strcmp(value, "client") == 0) {
        by = BY_CLIENT;
    } else if (strcmp(value, "connection") == 0) {
        by = BY_CONNECTION;
    } else if (strcmp(value, "export") == 0) {
        by = BY_EXPORT;
    } else {
        nbdkit_error("fair-by=%s: client, connection or export is expected", value);
        return -1;
    }
    return 0;
}

static int fair_get_ready(int thread_model)
{
    if (thread_model <= NBDKIT_THREAD_MODEL_SERIALIZE_ALL_REQUESTS) {
        nbdkit_error("the plugin does one request at a time, under the server's lock: there is "
                     "no order to choose. Serve it from an nbdkit of its own, and this filter "
                     "from another before it with the plugin nbd");
        return -1;
    }
    return 0;
}

/* Here and not earlier: a gate does not outlive a fork. */
static int fair_after_fork(nbdkit_backend *backend)
{
    (void)backend;
    gate = pn_gate_open(NULL, NULL);
    if (!gate)
        nbdkit_error("the gate cannot be opened");
    return gate ? 0 : -1;
}

static void fair_unload(void)
{
    pn_gate_close(gate);
    while (weights) {
        struct weight *weight = weights;

        weights = weight->next;
        free(weight);
    }
}

static void name_of_client(char *name, size_t room)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    char address[INET6_ADDRSTRLEN] = "unknown";

    if (nbdkit_peer_name((struct sockaddr *)&peer, &len) == 0) {
        if (peer.ss_family == AF_INET) {
            inet_ntop(AF_INET, &((struct sockaddr_in *)&peer)->sin_addr, address, sizeof address);
        } else if (peer.ss_family == AF_INET6) {
            inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&peer)->sin6_addr, address,
                      sizeof address);
        } else if (peer.ss_family == AF_UNIX) {
            snprintf(name, room, "user-%" PRIi64, nbdkit_peer_uid());
            return;
        }
    }
    snprintf(name, room, "%s", address);
}

/* The sharer of that name, or a new one. Called with the lock held. */
static struct sharer *find(const char *name)
{
    unsigned weight = 100;
    struct sharer *sharer;

    for (sharer = sharers; sharer; sharer = sharer->next)
        if (strcmp(sharer->name, name) == 0)
            return sharer;
    for (const struct weight *own = weights; own; own = own->next)
        if (strlen(name) == own->len && strncmp(own->name, name, own->len) == 0)
            weight = own->weight;
    sharer = calloc(1, sizeof *sharer);
    if (!sharer)
        return NULL;
    snprintf(sharer->name, sizeof sharer->name, "%s", name);
    sharer->cls = pn_class_open(gate, NULL, name, weight, PN_NORMAL);
    if (!sharer->cls) {
        free(sharer);
        return NULL;
    }
    nbdkit_debug("fair: %s weighs %u", name, weight);
    sharer->next = sharers;
    sharers = sharer;
    return sharer;
}

static void *fair_open(nbdkit_next_open *next, nbdkit_context *context, int readonly,
                       const char *export, int is_tls)
{
    char name[NAME_MOST];
    struct sharer *sharer;

    (void)is_tls;
    if (next(context, readonly, export) < 0)
        return NULL;
    pthread_mutex_lock(&lock);
    connections++;
    if (by == BY_EXPORT)
        snprintf(name, sizeof name, "%s", export);
    else if (by == BY_CONNECTION)
        snprintf(name, sizeof name, "connection-%lu", connections);
    else
        name_of_client(name, sizeof name);
    sharer = find(name);
    if (sharer)
        sharer->connections++;
    else
        nbdkit_error("there is no place for one more client");
    pthread_mutex_unlock(&lock);
    return sharer;
}

static void fair_close(void *handle)
{
    struct sharer *sharer = handle, **place;
    struct pn_counts had = { .size = sizeof had };

    pthread_mutex_lock(&lock);
    if (--sharer->connections == 0) {
        if (pn_class_counts(sharer->cls, &had) == PN_OK)
            nbdkit_debug("fair: %s had %" PRIu64 " permits, %" PRIu64 " bytes, %" PRIu64
                         " ns of the plugin, and waited %" PRIu64 " ns",
                         sharer->name, had.granted, had.bytes, had.device_time_ns, had.waited_ns);
        pn_class_close(sharer->cls);
        for (place = &sharers; *place != sharer; place = &(*place)->next)
            ;
        *place = sharer->next;
        free(sharer);
    }
    pthread_mutex_unlock(&lock);
}

/* 0 if the gate is full: the request then goes without a permit; failing it would be worse. */
static pn_permit permit(void *handle, int op, uint64_t offset, uint64_t len)
{
    struct sharer *sharer = handle;
    pn_permit got = 0;

    return pn_permit_wait_at(sharer->cls, op, offset, len, PN_FOREVER, &got) == PN_OK ? got : 0;
}

static int fair_pread(nbdkit_next *next, void *handle, void *buffer, uint32_t count,
                      uint64_t offset, uint32_t flags, int *error)
{
    pn_permit own = permit(handle, PN_READ, offset, count);
    int result = next->pread(next, buffer, count, offset, flags, error);

    pn_permit_give_back(gate, own);
    return result;
}

static int fair_pwrite(nbdkit_next *next, void *handle, const void *buffer, uint32_t count,
                       uint64_t offset, uint32_t flags, int *error)
{
    pn_permit own = permit(handle, PN_WRITE, offset, count);
    int result = next->pwrite(next, buffer, count, offset, flags, error);

    pn_permit_give_back(gate, own);
    return result;
}

static int fair_flush(nbdkit_next *next, void *handle, uint32_t flags, int *error)
{
    pn_permit own = permit(handle, PN_FLUSH, PN_ANYWHERE, 0);
    int result = next->flush(next, flags, error);

    pn_permit_give_back(gate, own);
    return result;
}

static int fair_trim(nbdkit_next *next, void *handle, uint32_t count, uint64_t offset,
                     uint32_t flags, int *error)
{
    pn_permit own = permit(handle, PN_DISCARD, offset, count);
    int result = next->trim(next, count, offset, flags, error);

    pn_permit_give_back(gate, own);
    return result;
}

static int fair_zero(nbdkit_next *next, void *handle, uint32_t count, uint64_t offset,
                     uint32_t flags, int *error)
{
    pn_permit own = permit(handle, PN_WRITE, offset, count);
    int result = next->zero(next, count, offset, flags, error);

    pn_permit_give_back(gate, own);
    return result;
}

static int fair_cache(nbdkit_next *next, void *handle, uint32_t count, uint64_t offset,
                      uint32_t flags, int *error)
{
    pn_permit own = permit(handle, PN_READ, offset, count);
    int result = next->cache(next, count, offset, flags, error);

    pn_permit_give_back(gate, own);
    return result;
}

static struct nbdkit_filter filter = {
    .name = "fair",
    .longname = "fair by client",
    .config = fair_config,
    .config_help = "fair-by=client|connection|export  Who shares.\n"
                   "fair-weight=NAME:N               Beside the 100 of the others.",
    .get_ready = fair_get_ready,
    .after_fork = fair_after_fork,
    .unload = fair_unload,
    .open = fair_open,
    .close = fair_close,
    .pread = fair_pread,
    .pwrite = fair_pwrite,
    .flush = fair_flush,
    .trim = fair_trim,
    .zero = fair_zero,
    .cache = fair_cache,
};

NBDKIT_REGISTER_FILTER(filter)
