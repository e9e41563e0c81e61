/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * paternoster.h: fair permits for I/O. Ask, get a permit in fair order, give it back.
 *
 *     pn_gate *gate = pn_gate_open("/var/lib/mine", NULL);
 *     pn_class *reads = pn_class_open(gate, NULL, "reads", 400, PN_NORMAL);
 *     pn_permit permit;
 *     if (pn_permit_wait(reads, PN_READ, 4096, PN_FOREVER, &permit) == PN_OK) {
 *         pread(fd, buffer, 4096, offset);
 *         pn_permit_give_back(gate, permit);
 *     }
 *
 * Every function may be called from any thread. A NULL handle gives PN_INVALID, NULL or 0. Times
 * are in nanoseconds; a gate's time begins with it.
 */
#ifndef PATERNOSTER_H
#define PATERNOSTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; pn_version() returns the library's. */
#define PN_VERSION 1

typedef struct pn_gate pn_gate;
typedef struct pn_class pn_class;

/* A permit: what pn_permit_give_back() takes. 0 is none. */
typedef uint64_t pn_permit;

enum pn_result {
    PN_OK = 0,
    PN_TOO_LATE = 1,  /* not granted in time, or refused since it cannot be done in time */
    PN_FULL = 2,      /* as many ask, or as many classes are open, as there are places for */
    PN_CLOSED = 3,    /* the class was closed */
    PN_NOT_OUT = 4,   /* the permit was given back already, or has expired */
    PN_IN_USE = 5,    /* other classes are below it */
    PN_FORKED = 6,    /* the gate belongs to the parent process: open one of your own */
    PN_INVALID = 7,   /* an argument means nothing */
    PN_DIFFERS = 8,   /* a line of a recording has another answer now */
    PN_UNREADABLE = 9 /* a line, or the file, is no recording; or it cannot be written */
};

enum pn_op { PN_READ = 0, PN_WRITE = 1, PN_FLUSH = 2, PN_DISCARD = 3 };

enum pn_kind { PN_NORMAL = 0, PN_URGENT = 1, PN_BACKGROUND = 2, PN_IDLE = 3 };

#define PN_FOREVER UINT64_MAX
/* An I/O without a given offset. */
#define PN_ANYWHERE UINT64_MAX

/* The gate's one policy, and the sizes of its tables. `size` is its sizeof: fields that the library
 * or the program does not know have defaults. 0 is the default, too. */
struct pn_settings {
    size_t size;
    uint32_t permits;          /* out at a time at most: 256 */
    uint32_t asks;             /* waiting or out: 4096 */
    uint32_t classes;          /* 255 */
    uint32_t flags;            /* of PN_ROTATIONAL, PN_NO_HELPER */
    uint64_t expires_after_ns; /* a permit that is not given back: 30 s */
    const char *record;        /* a file for calls and answers, for pn_replay(); NULL: none */
};

#define PN_ROTATIONAL 1u /* seeks cost time, whatever the system says */
#define PN_NO_HELPER 2u  /* start no thread: pn_gate_poll() is called instead */

/* The most and the least that a class gets, per second; 0: no limit. `size` as above. */
struct pn_rates {
    size_t size;
    uint64_t cap_bytes;
    uint64_t cap_requests;
    uint64_t floor_bytes;
    uint64_t floor_requests;
};

/* What a class has received. `size` as above: only fields within it are filled. */
struct pn_counts {
    size_t size;
    uint64_t asked;
    uint64_t granted;
    uint64_t given_back;
    uint64_t expired;
    uint64_t withdrawn;
    uint64_t too_late;
    uint64_t bytes;
    uint64_t device_time_ns;
    uint64_t waited_ns;
};

/* Called when a permit is granted (PN_OK) or is too late (PN_TOO_LATE, permit 0): at once, or by
 * the thread that gives another one back. It may ask, and give back. */
typedef void (*pn_granted)(void *context, int result, pn_permit permit);

uint32_t pn_version(void);
/* What a result means, in words; never NULL. */
const char *pn_result_text(int result);

/* A gate for the device of `path` (a file, a folder, a block device; NULL: any device).
 * `settings` may be NULL. NULL if memory ran out, an argument is invalid or `record`
 * cannot be written. */
pn_gate *pn_gate_open(const char *path, const struct pn_settings *settings);
/* Writes the recording so far to the file; PN_INVALID if there is none. */
int pn_gate_flush(pn_gate *gate);
/* Releases it, and writes the recording. Open classes and permits keep it alive. */
void pn_gate_close(pn_gate *gate);
/* The gate's time. */
uint64_t pn_gate_now(const pn_gate *gate);
/* Does what is due. Nanoseconds until it has to be called again; PN_FOREVER: never. */
uint64_t pn_gate_poll(pn_gate *gate);
/* How many ask, and how many permits are out. */
int pn_gate_in_all(const pn_gate *gate, uint32_t *waiting, uint32_t *out);
/* Figures for Prometheus; what waits for what and why, at most `most` lines. Both write at most
 * `room` bytes with a 0 at their end, and return how long the whole text is. */
size_t pn_gate_metrics(const pn_gate *gate, char *text, size_t room);
size_t pn_gate_explain(const pn_gate *gate, size_t most, char *text, size_t room);
/* The next report in words (a permit that expired, a holder that waits), as above; 0: none. */
size_t pn_gate_report(pn_gate *gate, char *text, size_t room);

/* Repeats the calls of a recording, up to line `until` (SIZE_MAX: all), and compares answers.
 * PN_OK: `lines` is how many were read, `text` what waits there for what and why. PN_DIFFERS,
 * PN_UNREADABLE: `lines` is which line, `text` what is wrong. Both may be NULL. An incomplete last
 * line is skipped. */
int pn_replay(const char *recording, size_t until, size_t *lines, char *text, size_t room);

/* A class; `above` may be NULL. NULL if there is no place, or `above` is not PN_NORMAL or
 * has a floor. `weight` is from 1 to 10,000, relative to its siblings. */
pn_class *pn_class_open(pn_gate *gate, pn_class *above, const char *name, uint32_t weight,
                        int kind);
int pn_class_set_weight(pn_class *cls, uint32_t weight);
/* Sets another cap and floor; NULL: none. A cap limits the class and those below it together. A
 * floor comes before any weight; only a class with none below it may have one. */
int pn_class_set_rates(pn_class *cls, const struct pn_rates *rates);
/* No more asks are taken; the handle is freed if this is PN_OK. */
int pn_class_close(pn_class *cls);
int pn_class_counts(const pn_class *cls, struct pn_counts *counts);

/* Waits for a permit, at most for `most_ns`. */
int pn_permit_wait(pn_class *cls, int op, uint64_t len, uint64_t most_ns, pn_permit *permit);
/* The same for an I/O at byte `offset`. */
int pn_permit_wait_at(pn_class *cls, int op, uint64_t offset, uint64_t len, uint64_t most_ns,
                      pn_permit *permit);
/* PN_TOO_LATE at once if the I/O is not expected to end within `most_ns`. */
int pn_permit_by(pn_class *cls, int op, uint64_t len, uint64_t most_ns, pn_permit *permit);
/* PN_TOO_LATE unless a permit is available at once. */
int pn_permit_try(pn_class *cls, int op, uint64_t len, pn_permit *permit);
/* Calls `granted`, perhaps at once; never if this result is not PN_OK. */
int pn_permit_async(pn_class *cls, int op, uint64_t len, uint64_t most_ns, pn_granted granted,
                    void *context);
/* The I/O has ended. */
int pn_permit_give_back(pn_gate *gate, pn_permit permit);
/* In how many nanoseconds a permit would be given, and the I/O be done. */
int pn_class_eta(const pn_class *cls, int op, uint64_t len, uint64_t *permit_ns,
                 uint64_t *done_ns);

#ifdef __cplusplus
}
#endif
#endif
