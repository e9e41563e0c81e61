/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process forks while it holds a permit. The child's copy of the gate does not affect the
 * parent's, the child's own gate works, and the parent's goes on.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paternoster.h"

static int in_child(pn_gate *copy, pn_permit held)
{
    pn_gate *own = pn_gate_open(NULL, NULL);
    pn_class *cls = pn_class_open(own, NULL, "own", 100, PN_NORMAL);
    pn_permit permit;

    /* A child that blocks is killed by a signal, and the parent returns 11. */
    alarm(30);
    /* The copy: permits that were out are out in it, and giving one back affects only the copy. */
    if (pn_permit_give_back(copy, held) != PN_OK)
        return 1;
    if (pn_permit_wait(cls, PN_READ, 4096, PN_FOREVER, &permit) != PN_OK)
        return 2;
    return pn_permit_give_back(own, permit) == PN_OK ? 0 : 3;
}

int main(void)
{
    pn_gate *gate = pn_gate_open(NULL, NULL);
    pn_class *cls = pn_class_open(gate, NULL, "reads", 100, PN_NORMAL);
    uint32_t waiting, out;
    pn_permit permit;
    int status;

    if (pn_permit_wait(cls, PN_READ, 4096, PN_FOREVER, &permit) != PN_OK)
        return 10;
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(gate, permit));
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 11;
    if (WEXITSTATUS(status) != 0)
        return WEXITSTATUS(status);
    if (pn_gate_in_all(gate, &waiting, &out) != PN_OK || waiting != 0 || out != 1)
        return 12;
    if (pn_permit_give_back(gate, permit) != PN_OK)
        return 13;
    if (pn_permit_wait(cls, PN_READ, 4096, PN_FOREVER, &permit) != PN_OK)
        return 14;
    if (pn_permit_give_back(gate, permit) != PN_OK)
        return 15;
    pn_class_close(cls);
    pn_gate_close(gate);
    return 0;
}
