/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One thread, io_uring and no waiting for permits: a callback puts the read into the ring, its end
 * gives the permit back. The gate starts no thread (PN_NO_HELPER), so the loop calls
 * pn_gate_poll(), and the ring is touched by this thread alone.
 *
 *     cc uring.c $(pkg-config --cflags --libs paternoster liburing) && ./a.out FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <stdio.h>
#include <unistd.h>

#include "paternoster.h"

enum { CLASSES = 2, AT_ONCE = 8, READS = 100, LEN = 4096 };

/* One of a class's AT_ONCE places: asks, reads, and asks again. */
struct place {
    struct io_uring *ring;
    pn_class *cls;
    unsigned *left; /* reads that its class has still to ask for */
    pn_permit permit;
    int file;
    int failed;
    char buffer[LEN];
};

/* Called by pn_permit_async(), pn_permit_give_back() or pn_gate_poll(): by this thread. */
static void granted(void *context, int result, pn_permit permit)
{
    struct place *place = context;
    struct io_uring_sqe *entry = io_uring_get_sqe(place->ring);

    place->permit = permit;
    if (result != PN_OK || !entry) {
        place->failed = 1;
        return;
    }
    io_uring_prep_read(entry, place->file, place->buffer, LEN, 0);
    io_uring_sqe_set_data(entry, place);
}

static int ask(struct place *place)
{
    (*place->left)--;
    return pn_permit_async(place->cls, PN_READ, LEN, PN_FOREVER, granted, place);
}

int main(int count, char **arguments)
{
    const char *path = count > 1 ? arguments[1] : arguments[0];
    struct pn_settings settings = { .size = sizeof settings, .flags = PN_NO_HELPER };
    pn_gate *gate = pn_gate_open(path, &settings);
    pn_class *classes[CLASSES] = {
        pn_class_open(gate, NULL, "reads", 400, PN_NORMAL),
        pn_class_open(gate, NULL, "scrub", 100, PN_NORMAL),
    };
    unsigned left[CLASSES] = { READS, READS };
    static struct place places[CLASSES][AT_ONCE];
    unsigned ended = 0;
    int failed = 0, file = open(path, O_RDONLY);
    struct io_uring ring;

    if (file < 0 || !classes[0] || !classes[1])
        return 1;
    if (io_uring_queue_init(CLASSES * AT_ONCE, &ring, 0) < 0) {
        fprintf(stderr, "there is no io_uring here\n");
        return 77;
    }
    for (int i = 0; i < CLASSES; i++) {
        for (int j = 0; j < AT_ONCE; j++) {
            places[i][j] = (struct place){ &ring, classes[i], &left[i], 0, file, 0, { 0 } };
            failed |= ask(&places[i][j]);
        }
    }
    while (ended < CLASSES * READS && !failed) {
        uint64_t wait = pn_gate_poll(gate);
        struct __kernel_timespec most = {
            .tv_sec = wait / 1000000000 < 1 ? 0 : 1,
            .tv_nsec = wait / 1000000000 < 1 ? (long long)wait : 0,
        };
        struct io_uring_cqe *end = NULL;
        struct place *place;

        io_uring_submit(&ring);
        if (io_uring_wait_cqe_timeout(&ring, &end, &most) < 0 || !end)
            continue; /* It is time to poll the gate. */
        place = io_uring_cqe_get_data(end);
        failed |= end->res < 0 || place->failed;
        io_uring_cqe_seen(&ring, end);
        ended++;
        failed |= pn_permit_give_back(gate, place->permit);
        if (*place->left > 0)
            failed |= ask(place);
    }
    for (int i = 0; i < CLASSES; i++) {
        struct pn_counts counts = { .size = sizeof counts };

        failed |= pn_class_counts(classes[i], &counts);
        printf("class %d: %" PRIu64 " permits, %" PRIu64 " bytes\n", i, counts.given_back,
               counts.bytes);
        failed |= pn_class_close(classes[i]);
    }
    pn_gate_close(gate);
    io_uring_queue_exit(&ring);
    close(file);
    return failed;
}
