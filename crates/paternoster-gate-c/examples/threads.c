/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads of two classes share a file by weight; prints what each received.
 *
 *     cc threads.c $(pkg-config --cflags --libs paternoster) -pthread && ./a.out FILE
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "paternoster.h"

enum { THREADS = 4, READS = 50, LEN = 4096 };

struct reader {
    pn_gate *gate;
    pn_class *cls;
    int file;
    int failed;
};

static void *read_all(void *argument)
{
    struct reader *reader = argument;
    char buffer[LEN];

    for (int i = 0; i < READS; i++) {
        pn_permit permit;
        int result = pn_permit_wait(reader->cls, PN_READ, LEN, PN_FOREVER, &permit);

        if (result != PN_OK) {
            fprintf(stderr, "no permit: %s\n", pn_result_text(result));
            reader->failed = 1;
            break;
        }
        if (pread(reader->file, buffer, LEN, 0) < 0)
            reader->failed = 1;
        if (pn_permit_give_back(reader->gate, permit) != PN_OK)
            reader->failed = 1;
    }
    return NULL;
}

/* Takes the permit that comes by a callback. */
static void granted(void *context, int result, pn_permit permit)
{
    pn_permit *place = context;

    *place = result == PN_OK ? permit : 0;
}

int main(int count, char **arguments)
{
    const char *path = count > 1 ? arguments[1] : arguments[0];
    struct pn_settings settings = { .size = sizeof settings, .permits = 8 };
    pn_gate *gate = pn_gate_open(path, &settings);
    pn_class *classes[2] = {
        pn_class_open(gate, NULL, "reads", 400, PN_NORMAL),
        pn_class_open(gate, NULL, "scrub", 100, PN_BACKGROUND),
    };
    struct reader readers[THREADS];
    pthread_t threads[THREADS];
    int failed = 0;
    int file = open(path, O_RDONLY);

    if (file < 0 || !classes[0] || !classes[1] || pn_version() != PN_VERSION)
        return 1;
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){ gate, classes[i % 2], file, 0 };
        if (pthread_create(&threads[i], NULL, read_all, &readers[i]))
            return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failed |= readers[i].failed;
    }
    /* The most and the least: as no class is below it, it may have both. */
    struct pn_rates rates = { .size = sizeof rates, .cap_bytes = 1 << 30, .floor_requests = 10 };
    failed |= pn_class_set_rates(classes[1], &rates);
    pn_permit by_callback = 0;
    failed |= pn_permit_async(classes[0], PN_FLUSH, 0, PN_FOREVER, granted, &by_callback);
    failed |= pn_permit_give_back(gate, by_callback);
    failed |= pn_class_set_rates(classes[1], NULL);
    /* Giving back twice is an error code, not a fault. */
    failed |= pn_permit_give_back(gate, by_callback) != PN_NOT_OUT;
    for (int i = 0; i < 2; i++) {
        struct pn_counts counts = { .size = sizeof counts };

        failed |= pn_class_counts(classes[i], &counts);
        printf("class %d: %" PRIu64 " permits, %" PRIu64 " bytes\n", i, counts.given_back,
               counts.bytes);
        failed |= pn_class_close(classes[i]);
    }
    failed |= pn_permit_wait(NULL, PN_READ, 1, 0, &by_callback) != PN_INVALID;
    pn_gate_close(gate);
    close(file);
    return failed;
}
