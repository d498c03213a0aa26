/* SPDX-License-Identifier: Apache-2.0 */
#include "api/job_texts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/job_json.h"
#include "service/base/clock.h"

#define KEEP_S 60 /* a change that somebody makes to the tasks by hand, which no version tells of, shows after it */

struct kept {
    char id[UUID_TEXT]; /* empty: none */
    int64_t last_event, row;
    int64_t until;
    char *text; /* up to elapsed_s, and from behind it */
    size_t head, len;
};

struct job_texts {
    pthread_mutex_t lock; /* a leaf; guards the rest */
    struct kept kept[JOB_TEXTS];
};

struct job_texts *job_texts_new(void) {
    struct job_texts *texts = calloc(1, sizeof *texts);
    if (!texts)
        abort();
    pthread_mutex_init(&texts->lock, NULL);
    return texts;
}

void job_texts_free(struct job_texts *texts) {
    if (!texts)
        return;
    for (size_t i = 0; i < JOB_TEXTS; i++)
        free(texts->kept[i].text);
    pthread_mutex_destroy(&texts->lock);
    free(texts);
}

static struct kept *slot_of(struct job_texts *texts, const char *id) {
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
    return &texts->kept[hash % JOB_TEXTS];
}

/* The lock is held. */
static bool is_of(const struct kept *kept, const char *id) {
    return strcmp(kept->id, id) == 0 && clock_now_ns() < kept->until;
}

bool job_texts_has(struct job_texts *texts, const char *id) {
    pthread_mutex_lock(&texts->lock);
    bool has = is_of(slot_of(texts, id), id);
    pthread_mutex_unlock(&texts->lock);
    return has;
}

bool job_texts_take(struct job_texts *texts, const char *id, const struct job_version *version, struct buf *out) {
    pthread_mutex_lock(&texts->lock);
    const struct kept *kept = slot_of(texts, id);
    bool found = is_of(kept, id) && kept->last_event == version->last_event && kept->row == version->row;
    if (found) {
        buf_append(out, kept->text, kept->head);
        job_write_elapsed(out, version->elapsed_s);
        buf_append(out, kept->text + kept->head, kept->len - kept->head);
    }
    pthread_mutex_unlock(&texts->lock);
    return found;
}

/* `text` is the table's from here on. */
static void keep(struct job_texts *texts, const struct job_row *job, char *text, size_t head, size_t len) {
    struct kept kept = {.last_event = job->last_event,
                        .row = job->row,
                        .until = deadline_in_s(KEEP_S),
                        .text = text,
                        .head = head,
                        .len = len};
    memcpy(kept.id, job->id, sizeof kept.id);
    pthread_mutex_lock(&texts->lock);
    struct kept *slot = slot_of(texts, job->id);
    char *before = slot->text;
    *slot = kept;
    pthread_mutex_unlock(&texts->lock);
    free(before);
}

void job_texts_write(struct job_texts *texts, const struct job_row *job, struct buf *out) {
    size_t start = out->len;
    job_write_head(out, job);
    size_t head = out->len - start;
    job_write_elapsed(out, job->elapsed_s);
    size_t tail = out->len - start;
    job_write_tail(out, job);
    size_t whole = out->len - start, len = head + whole - tail;
    char *text = len <= MOST_JOB_TEXT && !out->overflowed ? malloc(len) : NULL;
    if (!text)
        return;
    memcpy(text, out->data + start, head);
    memcpy(text + head, out->data + start + tail, whole - tail);
    keep(texts, job, text, head, len);
}
