/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thirty-two threads read 4 KiB of a device through a door: sixteen of a class of weight 100,
 * fifteen of one of 400, one at a time each and at random places; and one that reads now and then.
 *
 *     doors FILE SIZE none|sem N|buckets READS|gate SECONDS PACE_MS [alone]
 *
 * `buckets` are told how many reads a second the device does, and divide them 100:400:100. Prints
 * the heavy class's share of the two classes' reads in thousandths, all reads a second, and the
 * paced reader's median and 99th percentile from ask to end, in us. The first third is not counted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "paternoster.h"

enum { LIGHT = 16, HEAVY = 15, THREADS = LIGHT + HEAVY + 1, LEN = 4096, MOST = 100000 };
enum { BURST_MS = 10 };

enum kind { NONE, SEMAPHORE, BUCKETS, GATE };

static const uint32_t weights[3] = { 100, 400, 100 };
static enum kind kind;
static sem_t places;
static pn_gate *gate;
static pn_class *classes[3];
static uint64_t counted_from, ends, paid[3], cost[3];
static pthread_mutex_t locks[3] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                    PTHREAD_MUTEX_INITIALIZER };
static int file;
static uint64_t blocks, pace;
static uint64_t reads[THREADS];
static uint64_t *took;
static size_t paced;
static int failed;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t at)
{
    struct timespec until = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
        ;
}

/* Waits for the bucket of a class: a read is paid for when its turn comes. */
static void pay(int cls)
{
    uint64_t at, now = now_ns();

    pthread_mutex_lock(&locks[cls]);
    if (paid[cls] < now)
        paid[cls] = now;
    at = paid[cls];
    paid[cls] += cost[cls];
    pthread_mutex_unlock(&locks[cls]);
    if (at > now + BURST_MS * 1000000u)
        sleep_until(at - BURST_MS * 1000000u);
}

static void read_one(int cls, uint64_t *seed, void *buffer)
{
    pn_permit permit = 0;

    switch (kind) {
    case NONE:
        break;
    case SEMAPHORE:
        while (sem_wait(&places))
            ;
        break;
    case BUCKETS:
        pay(cls);
        break;
    case GATE:
        if (pn_permit_wait(classes[cls], PN_READ, LEN, PN_FOREVER, &permit) != PN_OK)
            failed = 1;
        break;
    }
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    if (pread(file, buffer, LEN, (off_t)((*seed >> 33) % blocks * LEN)) != LEN)
        failed = 1;
    if (kind == SEMAPHORE)
        sem_post(&places);
    if (kind == GATE && pn_permit_give_back(gate, permit) != PN_OK)
        failed = 1;
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    int cls = thread < LIGHT ? 0 : thread < LIGHT + HEAVY ? 1 : 2;
    uint64_t seed = (uint64_t)thread * 7919 + 1, next = now_ns();
    void *buffer = NULL;

    if (posix_memalign(&buffer, LEN, LEN))
        exit(1);
    for (;;) {
        uint64_t began, ended;

        if (cls == 2) {
            next += pace;
            sleep_until(next);
        }
        began = now_ns();
        if (began >= ends)
            break;
        read_one(cls, &seed, buffer);
        ended = now_ns();
        if (began < counted_from || ended >= ends)
            continue;
        reads[thread]++;
        if (cls == 2 && paced < MOST)
            took[paced++] = ended - began;
    }
    free(buffer);
    return NULL;
}

static int by_size(const void *left, const void *right)
{
    uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;

    return (one > other) - (one < other);
}

static uint64_t sum(int from, int count)
{
    uint64_t all = 0;

    for (int thread = from; thread < from + count; thread++)
        all += reads[thread];
    return all;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    uint64_t seconds, heavy, both, number;
    int first = 0, place = 4;

    if (count < 6)
        return 2;
    file = open(arguments[1], O_RDONLY | O_DIRECT);
    blocks = strtoull(arguments[2], NULL, 10) / LEN;
    number = strtoull(arguments[4], NULL, 10);
    if (!strcmp(arguments[3], "sem")) {
        kind = SEMAPHORE;
        sem_init(&places, 0, (unsigned)number);
        place = 5;
    } else if (!strcmp(arguments[3], "buckets")) {
        kind = BUCKETS;
        for (int cls = 0; cls < 3; cls++)
            cost[cls] = 600000000000u / (number * weights[cls]);
        place = 5;
    } else if (!strcmp(arguments[3], "gate")) {
        kind = GATE;
        gate = pn_gate_open(NULL, NULL);
        for (int cls = 0; cls < 3; cls++)
            classes[cls] = pn_class_open(gate, NULL, "class", weights[cls], PN_NORMAL);
    }
    if (file < 0 || blocks == 0 || count < place + 2)
        return 2;
    seconds = strtoull(arguments[place], NULL, 10);
    pace = strtoull(arguments[place + 1], NULL, 10) * 1000000u;
    if (count > place + 2)
        first = THREADS - 1;
    took = calloc(MOST, sizeof *took);
    if (!took)
        return 1;
    ends = now_ns() + seconds * 1000000000u;
    counted_from = ends - seconds * 1000000000u / 3 * 2;
    for (intptr_t thread = first; thread < THREADS; thread++)
        if (pthread_create(&threads[thread], NULL, work, (void *)thread))
            return 1;
    for (int thread = first; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    heavy = sum(LIGHT, HEAVY);
    both = sum(0, LIGHT) + heavy;
    qsort(took, paced, sizeof *took, by_size);
    printf("%" PRIu64 " %.1f %.1f %.1f\n", both ? heavy * 1000 / both : 0,
           (double)sum(0, THREADS) / (double)seconds * 1.5,
           paced ? (double)took[paced / 2] / 1e3 : 0.0,
           paced ? (double)took[paced * 99 / 100] / 1e3 : 0.0);
    for (int cls = 0; gate && cls < 3; cls++)
        pn_class_close(classes[cls]);
    pn_gate_close(gate);
    free(took);
    close(file);
    return failed;
}
