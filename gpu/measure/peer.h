/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h: a child of ours that answers one JSON request at a time, from both ends.
 *
 * The parent asks, waits with poll() on peer->child.out until an answer comes or the time is over, and starts the
 * child anew when it is asked after it was ended. The child serves requests until its standard input closes.
 */
#ifndef WARPTUNE_MEASURE_PEER_H
#define WARPTUNE_MEASURE_PEER_H

#include "service/base/child.h"
#include "service/base/json.h"

/* ---- the parent's end ---- */

struct peer {
    struct child child;
    bool busy;        /* owes an answer */
    int64_t deadline; /* when it is late; meaningful while busy */
};

#define PEER_INIT \
    { CHILD_INIT, false, 0 }

struct peer_options {
    const char *program, *role; /* runs `program child role` */
    int stderr_fd;
};

/*
 * Sends the request (released either way) to an idle peer, which is started when it does not run. 1: it ran, but has
 * ended meanwhile, and whatever it knew is lost; ask again.
 */
int peer_ask(struct peer *peer, const struct peer_options *options, struct json_object *request, double timeout_s,
             struct error *error) MUST_CHECK;
/* Whether it runs, as far as one knows without asking. */
bool peer_runs(const struct peer *peer);

enum peer_event { PEER_NOTHING, PEER_ANSWER, PEER_DIED, PEER_LATE };

/*
 * Looks at a busy peer after poll(): `readable` says what that gave. PEER_ANSWER: *ret is the caller's, the peer is
 * idle. PEER_DIED: it ended, or talked nonsense; text says how: «was killed by signal 11 (…)». PEER_LATE: its time is
 * over. After both it is ended.
 */
enum peer_event peer_look(struct peer *peer, bool readable, struct json_object **ret, char *text, size_t size);
/* Kills it; safe when it does not run. */
void peer_end(struct peer *peer);

/* ---- the child's end ---- */

/*
 * Calls answer(data, request) for each request and sends what it returns, until standard input closes or answer says
 * `*ret_last`. What the process prints meanwhile goes to standard error. Returns the exit status.
 */
int peer_serve(struct json_object *(*answer)(void *data, struct json_object *request, bool *ret_last), void *data);

#endif
