/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gpu/module/plan_internal.h"
#include "service/base/json.h"

enum { MOST_KEY = 1 << 20 };

/* ---- choosing ---- */

static const struct plan_choice *find_choice(const struct plan_options *options, const char *key) {
    for (int i = 0; i < options->n_choices; i++) {
        if (strcmp(options->choices[i].workload, key) == 0)
            return &options->choices[i];
    }
    return NULL;
}

/* A configuration of a template. */
struct pick {
    const struct template *template;
    const struct space *space;
    int64_t index;
};

static int pick_chosen(struct planner *planner, const struct plan_choice *choice, const struct workload *workload,
                       struct pick *ret) {
    const struct plan_options *options = planner->options;
    const struct template *template = template_find(options->templates, choice->template);
    if (!template)
        return error_set(planner->error, ERROR_INVALID, "unknown-template", "template",
                         "There is no template %.100s, which was chosen for %.600s.", choice->template,
                         choice->workload);
    if (strcmp(template->device, options->target.kind) != 0 || !template->serves(workload, &options->target))
        return 0;
    const struct space *space = template->space(workload, &options->target, planner->arena);
    if (choice->index < 0 || choice->index >= space->size)
        return error_set(planner->error, ERROR_INVALID, "bad-index", "index",
                         "Configuration %lld is outside the %lld of template %.100s for %.600s.",
                         (long long)choice->index, (long long)space->size, template->name, choice->workload);
    *ret = (struct pick){template, space, choice->index};
    return 0;
}

/* What was chosen, where it serves; else the preferred template's fallback. */
static int pick(struct planner *planner, const struct workload *workload, const char *key, const char *node,
                struct pick *ret) {
    const struct plan_options *options = planner->options;
    const struct plan_choice *choice = find_choice(options, key);
    if (choice && pick_chosen(planner, choice, workload, ret) < 0)
        return -1;
    if (ret->template)
        return 0;
    ret->template = template_for(options->templates, workload, &options->target);
    if (!ret->template)
        return error_set(planner->error, ERROR_DEVICE, "no-template", node,
                         "No kernel computes node %.100s on %s: %.600s.", node, options->target.kind, key);
    ret->space = ret->template->space(workload, &options->target, planner->arena);
    ret->index = ret->template->fallback(workload, &options->target, ret->space);
    return 0;
}

static const char *entity_text(const struct pick *pick, struct arena *arena) {
    struct json_object *entity CLEANUP(json_put_p) = space_entity(pick->space, pick->index);
    return arena_strdup(arena, json_text(entity, NULL));
}

int plan_program(struct planner *planner, const struct workload *workload, const char *node, int *ret) {
    struct plan *plan = planner->plan;
    struct buf key CLEANUP(buf_release) = BUF_INIT(MOST_KEY);
    workload_key(workload, &key);
    if (buf_check(&key, "A workload", planner->error) < 0)
        return error_prefix(planner->error, "Node %.100s: ", node);
    for (int i = 0; i < plan->n_programs; i++) {
        if (strcmp(plan->programs[i].workload, key.data) == 0) {
            plan->programs[i].count++;
            *ret = i;
            return 0;
        }
    }
    struct pick chosen = {0};
    struct program *program;
    if (pick(planner, workload, key.data, node, &chosen) < 0)
        return -1;
    if (chosen.template->render(workload, &planner->options->target, chosen.space, chosen.index, planner->arena,
                                &program, planner->error) < 0)
        return error_prefix(planner->error, "Node %.100s, template %.60s: ", node, chosen.template->name);
    struct plan_program *added = PLAN_APPEND(planner, plan->programs, plan->n_programs, planner->cap_programs);
    *added = (struct plan_program){.workload = arena_strdup(planner->arena, key.data),
                                   .template = chosen.template,
                                   .index = chosen.index,
                                   .entity = entity_text(&chosen, planner->arena),
                                   .program = program,
                                   .count = 1};
    *ret = plan->n_programs - 1;
    return 0;
}

/* ---- launching ---- */

/* Where a program's arguments lie in one use of it. */
struct binding {
    const int *in, *out;
    int n_in;
    int scratch, prepared; /* first buffer of each */
};

static int add_buffers(struct planner *planner, enum plan_buffer_kind kind, const size_t *bytes, int n) {
    int first = planner->plan->n_buffers;
    for (int i = 0; i < n; i++)
        plan_add_buffer(planner, kind, 0, bytes[i]);
    return first;
}

static int bind_arg(const struct arg *arg, const struct binding *binding) {
    switch (arg->kind) {
    case ARG_IN:
        return binding->in[arg->index];
    case ARG_OUT:
        return binding->out[arg->index];
    case ARG_SCRATCH:
        return binding->scratch + arg->index;
    case ARG_PREPARED:
        return binding->prepared + arg->index;
    default:
        return -1;
    }
}

static void add_step(struct planner *planner, bool prepares, int program, const struct launch *launch,
                     const struct binding *binding, const char *node) {
    struct plan *plan = planner->plan;
    struct plan_step *step = prepares ? PLAN_APPEND(planner, plan->prepare, plan->n_prepare, planner->cap_prepare)
                                      : PLAN_APPEND(planner, plan->run, plan->n_run, planner->cap_run);
    step->program = program;
    step->launch = launch;
    step->node = node;
    for (int i = 0; i < launch->n_args; i++)
        step->buffers[i] = bind_arg(&launch->args[i], binding);
}

/* Does preparing read constants only? If not, it belongs to every run. */
static bool prepares_once(const struct planner *planner, const struct program *program, const int *in) {
    for (int l = 0; l < program->n_prepare; l++) {
        for (int a = 0; a < program->prepare[l].n_args; a++) {
            const struct arg *arg = &program->prepare[l].args[a];
            if (arg->kind == ARG_IN && planner->plan->buffers[in[arg->index]].kind != PLAN_CONSTANT)
                return false;
        }
    }
    return true;
}

/* The same program over the same constants prepares the same; inputs that are not constant do not matter to it. */
static struct prepared_set *find_set(const struct planner *planner, int program, const int *constants, int n_in) {
    for (int i = 0; i < planner->n_sets; i++) {
        struct prepared_set *set = &planner->sets[i];
        if (set->program == program && set->n_in == n_in &&
            memcmp(set->in, constants, (size_t)n_in * sizeof *constants) == 0)
            return set;
    }
    return NULL;
}

static int prepare_once(struct planner *planner, int index, struct binding *binding, const char *node) {
    const struct program *program = planner->plan->programs[index].program;
    int *constants = arena_array(planner->arena, (size_t)binding->n_in, sizeof *constants);
    for (int i = 0; i < binding->n_in; i++)
        constants[i] = planner->plan->buffers[binding->in[i]].kind == PLAN_CONSTANT ? binding->in[i] : -1;
    const struct prepared_set *found = find_set(planner, index, constants, binding->n_in);
    if (found)
        return found->first;
    struct binding own = *binding;
    own.prepared = add_buffers(planner, PLAN_PREPARED, program->prepared_bytes, program->n_prepared);
    own.scratch = add_buffers(planner, PLAN_WORKSPACE, program->scratch_bytes, program->n_scratch);
    for (int i = 0; i < program->n_prepare; i++)
        add_step(planner, true, index, &program->prepare[i], &own, node);
    struct prepared_set *set = PLAN_APPEND(planner, planner->sets, planner->n_sets, planner->cap_sets);
    *set = (struct prepared_set){index, binding->n_in, constants, own.prepared};
    return own.prepared;
}

static int check_program(struct planner *planner, const struct plan_program *program) {
    const struct {
        const struct launch *launches;
        int n;
    } lists[] = {{program->program->prepare, program->program->n_prepare},
                 {program->program->run, program->program->n_run}};
    for (size_t list = 0; list < ARRAY_COUNT(lists); list++) {
        for (int i = 0; i < lists[list].n; i++) {
            if (lists[list].launches[i].n_args > LAUNCH_MAX_ARGS)
                return error_set(planner->error, ERROR_INTERNAL, "bad-program", NULL,
                                 "Template %s renders a launch of too many arguments.", program->template->name);
        }
    }
    return 0;
}

int plan_launch(struct planner *planner, int index, const int *in, int n_in, const int *out, const char *node) {
    const struct program *program = planner->plan->programs[index].program;
    if (check_program(planner, &planner->plan->programs[index]) < 0)
        return -1;
    struct binding binding = {.in = in, .out = out, .n_in = n_in};
    bool once = prepares_once(planner, program, in);
    if (program->n_prepared && once)
        binding.prepared = prepare_once(planner, index, &binding, node);
    else
        binding.prepared = add_buffers(planner, PLAN_WORKSPACE, program->prepared_bytes, program->n_prepared);
    binding.scratch = add_buffers(planner, PLAN_WORKSPACE, program->scratch_bytes, program->n_scratch);
    for (int i = 0; i < program->n_prepare && !once; i++)
        add_step(planner, false, index, &program->prepare[i], &binding, node);
    for (int i = 0; i < program->n_run; i++)
        add_step(planner, false, index, &program->run[i], &binding, node);
    return 0;
}
