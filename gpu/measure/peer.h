/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h: a child of ours that answers JSON requests in their order, from both ends.
 *
 * The parent asks, waits with poll() on peer->child.out until an answer comes or its time is over, and starts the child
 * anew when it is asked after it was ended. A request may have several answers, and another may be sent before the last
 * is answered, so that the child need not wait for its parent; the time of an answer is counted from the one before it,
 * and that of the first from when the child said that it runs. The child serves requests until its standard input
 * closes.
 */
#ifndef WARPTUNE_MEASURE_PEER_H
#define WARPTUNE_MEASURE_PEER_H

#include "service/base/child.h"
#include "service/base/json.h"

/* ---- the parent's end ---- */

struct peer {
    struct child child;
    bool starting;    /* has not said yet that it runs */
    int owed;         /* answers */
    double timeout_s; /* of each answer */
    int64_t deadline; /* of the next one; meaningful while some are owed */
};

#define PEER_INIT \
    { CHILD_INIT, false, 0, 0, 0 }

struct peer_options {
    const char *program, *role; /* runs `program child role` */
    int stderr_fd;
    bool no_network; /* as in child.h, all that follow */
    enum sandbox sandbox;
    int64_t memory_bytes;
};

/* A builder's: compilers need neither a network nor ever so much memory. */
struct peer_options peer_builder_options(const char *program, int stderr_fd);

/*
 * Sends the request (released either way), for which `answers` answers are then owed, to the peer, which is started
 * when it does not run. 1: it ran, but has ended meanwhile, and whatever it knew is lost; look at it when it still owes
 * something, else ask again. Answers that are owed already keep their time; a peer owes at most a pipe's worth.
 */
int peer_ask(struct peer *peer, const struct peer_options *options, struct json_object *request, int answers,
             double timeout_s, struct error *error) MUST_CHECK;
/* Whether it runs, as far as one knows without asking. */
bool peer_runs(const struct peer *peer);
/* Gives the next answer this much time from now, and those behind it as well. */
void peer_allow(struct peer *peer, double timeout_s);

enum peer_event { PEER_NOTHING, PEER_ANSWER, PEER_DIED, PEER_LATE };

/*
 * Looks at a peer that owes answers, after poll(): `readable` says what that gave. PEER_ANSWER: *ret is the caller's.
 * PEER_DIED: it ended, or talked nonsense; text says how: «was killed by signal 11 (…)». PEER_LATE: its time is over.
 * After both it is ended and owes nothing.
 */
enum peer_event peer_look(struct peer *peer, bool readable, struct json_object **ret, char *text, size_t size);
/* Kills it; safe when it does not run. */
void peer_end(struct peer *peer);

/* ---- the child's end ---- */

struct peer_client; /* the parent, as the child sees it */

/* Sends an answer (released). */
void peer_answer(struct peer_client *client, struct json_object *answer);
/* This request is the last that is served. */
void peer_retire(struct peer_client *client);
/*
 * Calls serve(data, request, client), which answers, for each request until standard input closes or it retires. What
 * the process prints meanwhile goes to standard error. Returns the exit status.
 */
int peer_serve(void (*serve)(void *data, struct json_object *request, struct peer_client *client), void *data);

#endif
