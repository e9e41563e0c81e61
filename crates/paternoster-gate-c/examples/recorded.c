/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Records what a gate does, and later finds out from the recording what a read waited for.
 *
 *     cc recorded.c $(pkg-config --cflags --libs paternoster) && ./a.out FILE
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "paternoster.h"

static void granted(void *context, int result, pn_permit permit)
{
    pn_permit *place = context;

    *place = result == PN_OK ? permit : 0;
}

/* A scrub that has the only permit, and a read that waits for it. */
static int record(const char *path)
{
    struct pn_settings settings = { .size = sizeof settings, .permits = 1, .record = path };
    pn_gate *gate = pn_gate_open(NULL, &settings);
    pn_class *reads = pn_class_open(gate, NULL, "reads", 400, PN_NORMAL);
    pn_class *scrub = pn_class_open(gate, NULL, "scrub", 100, PN_IDLE);
    pn_permit scrubs = 0, read = 0;
    int failed = !gate || !reads || !scrub;

    failed |= pn_permit_wait(scrub, PN_READ, 1 << 20, PN_FOREVER, &scrubs);
    failed |= pn_permit_async(reads, PN_READ, 4096, PN_FOREVER, granted, &read);
    /* While the program runs. */
    failed |= pn_gate_flush(gate);
    failed |= pn_permit_give_back(gate, scrubs);
    failed |= pn_permit_give_back(gate, read);
    failed |= pn_class_close(reads);
    pn_gate_close(gate);
    /* It was left open: the recording is in the file even so. */
    return failed | pn_class_close(scrub);
}

/* The place of the line that asks for the read, from 1. */
static size_t line_of_the_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512];
    size_t number = 0, found = 0;

    while (file && fgets(line, sizeof line, file)) {
        number++;
        if (!strncmp(line, "ask ", 4))
            found = number;
    }
    if (file)
        fclose(file);
    return found;
}

int main(int count, char **arguments)
{
    const char *path = count > 1 ? arguments[1] : "/tmp/recorded.gate";
    size_t line, lines = 0;
    char text[512];

    if (record(path))
        return 1;
    line = line_of_the_read(path);
    if (pn_replay(path, line, &lines, text, sizeof text) != PN_OK || lines != line)
        return 2;
    fputs(text, stdout);
    if (pn_replay(path, SIZE_MAX, &lines, text, sizeof text) != PN_OK || lines <= line || *text)
        return 3;
    return 0;
}
