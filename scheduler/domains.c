/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/domains.h"

#include <string.h>

enum { MOST_DOMAINS = 64 };

static bool serves(const struct template *template, const struct workload *workload, const struct target *target) {
    return strcmp(template->device, target->kind) == 0 && template->serves(workload, target);
}

/* Adds those that serve and are not by name. */
static int add_all(const struct workload *workload, const struct target *target, bool libraries,
                   const struct template *ret[MOST_DOMAINS], int n) {
    const struct template *plain = template_plain(target);
    for (int i = 0; template_builtin[i] && n < MOST_DOMAINS; i++)
        if (template_builtin[i] != plain && !template_builtin[i]->by_name &&
            (template_builtin[i]->library != NULL) == libraries && serves(template_builtin[i], workload, target))
            ret[n++] = template_builtin[i];
    return n;
}

static int choose(const struct workload *workload, const struct target *target, const char *only, bool libraries,
                  const struct template *ret[MOST_DOMAINS]) {
    const struct template *named = *only ? template_find(template_builtin, only) : NULL;
    const struct template *plain = template_plain(target);
    int n = 0;
    if (named && serves(named, workload, target)) {
        ret[0] = named;
        return 1;
    }
    n = add_all(workload, target, false, ret, n);
    if (n == 0 && serves(plain, workload, target))
        ret[n++] = plain;
    return libraries ? add_all(workload, target, true, ret, n) : n;
}

int domains_of(const struct workload *workload, const struct target *target, const char *only, bool libraries,
               struct arena *arena, struct domain **ret, int *ret_count, struct error *error) {
    const struct template *templates[MOST_DOMAINS];
    int n = choose(workload, target, only, libraries, templates);
    if (n == 0) {
        struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 20);
        workload_key(workload, &key);
        return error_set(error, ERROR_DEVICE, "no-template", NULL, "No kernel serves %.600s on %s.", buf_str(&key),
                         target->kind);
    }
    *ret = arena_array(arena, (size_t)n, sizeof **ret);
    for (int i = 0; i < n; i++)
        (*ret)[i] = (struct domain){templates[i], workload, target, templates[i]->space(workload, target, arena)};
    *ret_count = n;
    return 0;
}

int64_t domains_points(const struct domain *domains, int n, const struct tuner_class *tuner) {
    int64_t points = 0;
    if (!tuner->all_domains)
        n = 1;
    for (int i = 0; i < n; i++)
        points += domains[i].space->size < INT64_MAX - points ? domains[i].space->size : INT64_MAX - points;
    return points;
}

int domains_find(const struct domain *domains, int n, const char *template, int version) {
    for (int i = 0; i < n; i++)
        if (domains[i].template->version == version && strcmp(domains[i].template->name, template) == 0)
            return i;
    return -1;
}
