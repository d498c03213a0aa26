/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_tune.c: `warptune tune`: a network to a server, its job followed to the end, what came of it into files. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/base/arena.h"
#include "service/base/file.h"
#include "service/base/json.h"
#include "service/base/sha256.h"
#include "service/base/web_url.h"
#include "service/client.h"
#include "service/commands.h"
#include "service/options.h"
#include "service/own_server.h"

static const char help[] =
    "usage: warptune tune MODEL.onnx [--server URL] [options]\n"
    "       warptune tune --job ID [--server URL] [options]\n\n"
    "Uploads a network to a server, submits a tuning job, shows how it gets on, and downloads what came of it. With\n"
    "--job it follows one that was submitted before. Without a server it uses the one that runs on the data folder, "
    "or\n"
    "runs one of its own there, on a port of this host, until it ends; a job that was cut short goes on when the same\n"
    "is asked again.\n\n"
    "  --server URL       http://HOST:PORT; or WARPTUNE_URL in the environment\n"
    "  --data-dir DIR     without a server: its data folder (as `warptune serve` has it)\n"
    "  --token TOKEN      for a server that asks for one; better in the environment, as WARPTUNE_TOKEN\n"
    "  --ca FILE          certificates to trust instead of the system's (PEM)\n"
    "  --name NAME        of the model (the file's)\n"
    "  --device KIND      auto, cpu or cuda (auto)\n"
    "  --precision P      fp32, fp16, bf16 or tf32, as the server has them (fp32)\n"
    "  --layout L         auto, nhwc or nchw (auto)\n"
    "  --batch N          for a network whose batch is not fixed\n"
    "  --trials N         at most, of each task\n"
    "  --tuner NAME       auto, xgb, xgb_rank, ga, random or gridsearch (auto)\n"
    "  --budget S         seconds that the whole search may take\n"
    "  -o FILE            where the compiled module goes\n"
    "  --config FILE      where the best configurations go, as JSON\n"
    "  --no-wait          prints the job's id and leaves; --wait, the default, follows it\n\n"
    "Exit status: 0 it is done, 1 it failed or was cancelled, 2 the command line was wrong, 130 interrupted: then the\n"
    "job goes on, where the server does.";

enum {
    SERVER,
    DATA_DIR,
    TOKEN,
    CA,
    NAME,
    DEVICE,
    PRECISION,
    LAYOUT,
    BATCH,
    TRIALS,
    TUNER,
    BUDGET,
    OUTPUT,
    CONFIG,
    WAIT,
    NO_WAIT,
    JOB,
    HELP,
    N_OPTIONS
};

#define MARK "warptune-tune" /* the label of jobs on a server of ours */
enum { MOST_SERVERS = 8 };

struct tuning {
    struct option_spec specs[N_OPTIONS];
    const char *model;               /* file; NULL with --job */
    int64_t batch, trials, budget_s; /* 0: the server's choice */
    struct client_options connection;
    struct client *client;
    struct own_server *own; /* NULL: a server was named */
    struct event_reader reader;
    struct arena *arena;
    const char *job; /* its id, once it has one */
    bool says_job;   /* has still to say which */
    bool on_terminal, line_open;
    char end[24]; /* the state that the job ended in */
};

/* ---- interruption ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

static struct own_server own_server;

static bool is_interrupted(void) {
    return interrupted;
}

/* Of a call: our server can end before it is answered. */
static bool is_over(void) {
    return interrupted || own_server_gone(&own_server);
}

/* The second one ends the program the usual way. */
static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- what is shown ---- */

/* A line that stays; one that was open gives way. */
static void PRINTF_LIKE(2, 3) say(struct tuning *tuning, const char *format, ...) {
    va_list args;
    if (tuning->line_open)
        fputs("\r\033[K", stdout);
    tuning->line_open = false;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* One that the next replaces; where lines stay there would be too many. */
static void show_line(struct tuning *tuning, const char *line) {
    if (!tuning->on_terminal)
        return;
    printf("\r\033[K%s", line);
    fflush(stdout);
    tuning->line_open = true;
}

/* What a server says may hold anything: the terminal takes no commands from it. */
static const char *plain(struct arena *arena, const char *text) {
    char *copy = arena_strdup(arena, text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    return copy;
}

static const char *text_of(struct json_object *object, const char *field) {
    const char *text = "";
    struct error ignored;
    return json_read_string(object, field, JSON_OPTIONAL, 1 << 16, &text, &ignored) == 0 ? text : "";
}

/* INFINITY where there is none. */
static double number_of(struct json_object *object, const char *field) {
    double number = INFINITY;
    struct error ignored;
    return json_read_double(object, field, JSON_OPTIONAL, -1e300, 1e300, &number, &ignored) == 0 ? number : INFINITY;
}

static const char *us(struct arena *arena, double value) {
    return isfinite(value) ? arena_printf(arena, "%.2f µs", value) : "not measured";
}

static void show_task(struct tuning *tuning, struct json_object *event, struct arena *arena) {
    const char *state = text_of(event, "state");
    double task = number_of(event, "task") + 1, tasks = number_of(event, "tasks"),
           trials = number_of(event, "trials_done");
    if (strcmp(state, "running") == 0 && trials > 0) {
        show_line(tuning, plain(arena, text_of(event, "line")));
    } else if (strcmp(state, "running") == 0) {
        say(tuning, "task %2.0f/%.0f begins: at most %.0f trials", task, tasks, number_of(event, "trials_planned"));
    } else {
        const char *reason = text_of(event, "stop_reason");
        bool says_more = *reason && strcmp(reason, "trials") != 0;
        say(tuning, "task %2.0f/%.0f %s after %.0f trials%s%s: best %s, untuned %s", task, tasks, plain(arena, state),
            trials, says_more ? ", " : "", says_more ? plain(arena, reason) : "",
            us(arena, number_of(event, "best_us")), us(arena, number_of(event, "baseline_us")));
    }
}

static void show_log(struct tuning *tuning, struct json_object *event, struct arena *arena) {
    const char *level = text_of(event, "level");
    if (strcmp(level, "info") != 0)
        say(tuning, "%s: %s", plain(arena, level), plain(arena, text_of(event, "text")));
}

/* One event of the job. False at the last one. */
static bool take_event(void *context, const char *name, const char *data) {
    struct tuning *tuning = context;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct json_object *event CLEANUP(json_put_p) = NULL;
    struct error ignored; /* a later server may say more than we know */
    if (json_parse(data, strlen(data), &event, &ignored) < 0 || !json_object_is_type(event, json_type_object))
        return true;
    if (strcmp(name, "state") == 0)
        say(tuning, "%s", plain(arena, text_of(event, "state")));
    else if (strcmp(name, "progress") == 0)
        show_task(tuning, event, arena);
    else if (strcmp(name, "log") == 0)
        show_log(tuning, event, arena);
    if (strcmp(name, "end") != 0)
        return true;
    snprintf(tuning->end, sizeof tuning->end, "%s", text_of(event, "state"));
    return false;
}

/* ---- upload and submit ---- */

/* The file's name without folder and ending. */
static const char *name_of(struct tuning *tuning) {
    const char *slash = strrchr(tuning->model, '/'), *base = slash ? slash + 1 : tuning->model;
    const char *dot = strrchr(base, '.');
    return arena_strndup(tuning->arena, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

static const char *id_in(struct tuning *tuning, struct json_object *answer) {
    return arena_strdup(tuning->arena, text_of(answer, "id"));
}

static int upload(struct tuning *tuning, const char **ret_id, struct error *error) {
    struct json_object *model CLEANUP(json_put_p) = NULL;
    const char *name = option_text(&tuning->specs[NAME], name_of(tuning));
    const char *path = arena_printf(tuning->arena, "/v1/models?name=%s", client_escape(tuning->client, name));
    if (client_upload(tuning->client, path, tuning->model, &model, error) < 0)
        return -1;
    *ret_id = id_in(tuning, model);
    return 0;
}

static void add_text(struct json_object *object, const char *field, const struct option_spec *spec) {
    if (spec->n_values)
        json_add_string(object, field, spec->values[0]);
}

static void add_number(struct json_object *object, const char *field, int64_t value) {
    if (value)
        json_add_int(object, field, value);
}

/* What is not asked for is the server's choice. */
static struct json_object *wishes(const struct tuning *tuning, const char *model_id) {
    struct json_object *body = json_object_new_object(), *tuner = json_object_new_object();
    json_add_string(body, "model_id", model_id);
    add_text(body, "device", &tuning->specs[DEVICE]);
    add_text(body, "precision", &tuning->specs[PRECISION]);
    add_text(body, "layout", &tuning->specs[LAYOUT]);
    add_number(body, "batch", tuning->batch);
    add_number(body, "budget_s", tuning->budget_s);
    add_text(tuner, "name", &tuning->specs[TUNER]);
    add_number(tuner, "trials", tuning->trials);
    json_add(body, "tuner", tuner);
    return body;
}

/* The same for the same wishes. */
static const char *mark_of(struct tuning *tuning, struct json_object *body) {
    const char *text = json_text(body, NULL);
    char hex[SHA256_HEX];
    sha256_of(text, strlen(text), hex);
    return arena_strdup(tuning->arena, hex);
}

/* The same wishes on a server of ours: a job that was cut short, or that another terminal follows. */
static int find_begun(struct tuning *tuning, const char *model_id, const char *mark, struct error *error) {
    static const char *const states[] = {"running", "queued"};
    for (size_t i = 0; !tuning->job && i < ARRAY_COUNT(states); i++) {
        struct json_object *page CLEANUP(json_put_p) = NULL, *jobs = NULL;
        const char *path = arena_printf(tuning->arena, "/v1/jobs?model_id=%s&state=%s&label=" MARK "%%3D%s&limit=1",
                                        model_id, states[i], mark);
        if (client_get(tuning->client, path, &page, error) < 0)
            return -1;
        if (json_object_object_get_ex(page, "jobs", &jobs) && json_object_is_type(jobs, json_type_array) &&
            json_object_array_length(jobs) > 0)
            tuning->job = id_in(tuning, json_object_array_get_idx(jobs, 0));
    }
    if (tuning->job)
        say(tuning, "this was begun before: going on");
    return 0;
}

/* A job that is asked for again is gone on with, rather than done twice. */
static int find_or_mark(struct tuning *tuning, const char *model_id, struct json_object *body, struct error *error) {
    struct json_object *labels = json_object_new_object();
    const char *mark = mark_of(tuning, body);
    json_add_string(labels, MARK, mark);
    json_add(body, "labels", labels);
    return find_begun(tuning, model_id, mark, error);
}

static int submit(struct tuning *tuning, struct error *error) {
    struct json_object *job CLEANUP(json_put_p) = NULL;
    const char *model_id;
    if (upload(tuning, &model_id, error) < 0)
        return -1;
    struct json_object *body CLEANUP(json_put_p) = wishes(tuning, model_id);
    if (tuning->own && find_or_mark(tuning, model_id, body, error) < 0)
        return -1;
    if (tuning->job)
        return 0;
    if (client_post(tuning->client, "/v1/jobs", body, true, &job, error) < 0)
        return -1;
    tuning->job = id_in(tuning, job);
    return 0;
}

/* ---- what came of it ---- */

static const char *job_path(struct tuning *tuning, const char *rest) {
    return arena_printf(tuning->arena, "/v1/jobs/%s%s", client_escape(tuning->client, tuning->job), rest);
}

static int fetch(struct tuning *tuning, int option, const char *what, struct error *error) {
    int64_t bytes;
    if (!tuning->specs[option].n_values)
        return 0;
    const char *file = tuning->specs[option].values[0];
    if (client_download(tuning->client, job_path(tuning, what), file, &bytes, error) < 0)
        return -1;
    say(tuning, "%s: %lld bytes", file, (long long)bytes);
    return 0;
}

static int show_end(struct tuning *tuning, struct error *error) {
    struct json_object *job CLEANUP(json_put_p) = NULL, *result = NULL, *failure = NULL;
    struct error ignored;
    if (client_get(tuning->client, job_path(tuning, ""), &job, error) < 0)
        return -1;
    if (strcmp(tuning->end, "succeeded") != 0) {
        if (json_read_object(job, "error", JSON_OPTIONAL, &failure, &ignored) == 0 && failure)
            return error_set(error, ERROR_CONFLICT, "job-failed", NULL, "The job %s: %s", tuning->end,
                             plain(tuning->arena, text_of(failure, "text")));
        return error_set(error, ERROR_CONFLICT, "job-ended", NULL, "The job is %s.", tuning->end);
    }
    if (json_read_object(job, "result", JSON_OPTIONAL, &result, &ignored) == 0 && result)
        say(tuning, "%s: the network takes %s, untuned %s", plain(tuning->arena, text_of(job, "device_key")),
            us(tuning->arena, number_of(result, "tuned_p50_us")),
            us(tuning->arena, number_of(result, "baseline_p50_us")));
    return 0;
}

static int follow(struct tuning *tuning, struct error *error) {
    bool ended = *tuning->end; /* before the server went away */
    if ((!ended && client_follow(tuning->client, job_path(tuning, "/events"), &tuning->reader, error) < 0) ||
        show_end(tuning, error) < 0 || fetch(tuning, OUTPUT, "/module?format=so", error) < 0)
        return -1;
    return fetch(tuning, CONFIG, "/config", error);
}

static int run(struct tuning *tuning, struct error *error) {
    bool waits = !tuning->specs[NO_WAIT].n_values;
    if (!tuning->job && submit(tuning, error) < 0)
        return -1;
    if (tuning->says_job)
        say(tuning, waits ? "job %s" : "%s", tuning->job);
    tuning->says_job = false;
    return waits ? follow(tuning, error) : 0;
}

/* ---- the command line ---- */

static int read_options(struct tuning *tuning, int argc, char **argv, struct error *error) {
    int n_models;
    struct option_spec *specs = tuning->specs;
    if (options_parse(argc, argv, specs, N_OPTIONS, &tuning->model, 1, &n_models, error) < 0 ||
        option_number(&specs[BATCH], 1, 65536, 0, &tuning->batch, error) < 0 ||
        option_number(&specs[TRIALS], 1, INT64_C(1) << 31, 0, &tuning->trials, error) < 0 ||
        option_number(&specs[BUDGET], 1, INT64_C(1) << 31, 0, &tuning->budget_s, error) < 0)
        return -1;
    tuning->job = option_text(&specs[JOB], NULL);
    tuning->says_job = true;
    return 0;
}

/* What cannot be right, in words; NULL: nothing. */
static const char *misuse(const struct tuning *tuning, const char *server, const char *token) {
    const struct option_spec *specs = tuning->specs;
    if (!tuning->model == !tuning->job)
        return "It needs a network, or a job with --job, and not both.";
    if (*server && specs[DATA_DIR].n_values)
        return "Either --server or --data-dir.";
    if (!*server && specs[NO_WAIT].n_values)
        return "With --no-wait it needs a server that stays: say --server URL, or set WARPTUNE_URL.";
    for (const char *c = token; c && *c; c++)
        if (*c <= ' ' || *c > '~' || c - token >= 300)
            return "The token is none.";
    if (specs[WAIT].n_values && specs[NO_WAIT].n_values)
        return "Either --wait or --no-wait.";
    if (specs[NO_WAIT].n_values && (specs[OUTPUT].n_values || specs[CONFIG].n_values || tuning->job))
        return "With --no-wait there is nothing to download yet.";
    return NULL;
}

static const char *from_environment(const struct option_spec *spec, const char *name) {
    const char *value = getenv(name);
    return option_text(spec, value && *value ? value : NULL);
}

static int report_kept(const struct tuning *tuning) {
    const char *devices = tuning->own->devices;
    fprintf(stderr,
            "warptune tune: interrupted; the job goes on with whatever server runs on %s.\n"
            "  follow it:  warptune tune --job %s --data-dir %s%s%s\n",
            tuning->own->data_dir, tuning->job, tuning->own->data_dir, devices ? " --device " : "",
            devices ? devices : "");
    return 130;
}

static int report(struct tuning *tuning, const struct error *error) {
    if (tuning->line_open)
        putchar('\n');
    if (error->class != ERROR_CANCELLED)
        return command_failed("tune", error);
    if (!tuning->job) {
        fputs("warptune tune: interrupted; no job was submitted.\n", stderr);
        return 130;
    }
    if (tuning->own)
        return report_kept(tuning);
    const char *server = client_server(tuning->client);
    fprintf(stderr,
            "warptune tune: interrupted; the job goes on.\n"
            "  follow it:  warptune tune --job %s --server %s\n"
            "  cancel it:  curl -X POST %s/v1/jobs/%s/cancel%s\n",
            tuning->job, server, server, tuning->job,
            from_environment(&tuning->specs[TOKEN], "WARPTUNE_TOKEN") ? " -H \"Authorization: Bearer $WARPTUNE_TOKEN\""
                                                                      : "");
    return 130;
}

/* The server that was named, or one for the data folder. */
static int connect_client(struct tuning *tuning, struct error *error) {
    client_close(tuning->client);
    tuning->client = NULL;
    if (tuning->own) {
        if (own_server_open(tuning->own, error) < 0)
            return -1;
        tuning->connection.server = tuning->own->url;
        fprintf(stderr, "warptune tune: the server %s, data in %s\n", tuning->own->url, tuning->own->data_dir);
    }
    return client_open(&tuning->connection, &tuning->client, error);
}

/* Our server may end before the job: it was another's, or it broke. Then the next takes the job up. */
static int run_on(struct tuning *tuning, struct error *error) {
    for (int left = MOST_SERVERS; connect_client(tuning, error) == 0; left--) {
        if (run(tuning, error) == 0)
            return 0;
        if (!tuning->own || interrupted || error->class == ERROR_CONFLICT || !own_server_gone(tuning->own))
            return -1;
        if (left == 0)
            return error_set(error, ERROR_IO, "no-server", NULL, "The server ended before the job, %d times.",
                             MOST_SERVERS + 1);
        say(tuning, "the server is gone");
    }
    return -1;
}

static int tune(struct tuning *tuning, const char *server) {
    struct error error;
    tuning->arena = arena_new(0);
    tuning->on_terminal = isatty(STDOUT_FILENO);
    if (!server) {
        own_server.stop = is_interrupted;
        own_server.devices = option_text(&tuning->specs[DEVICE], NULL);
        tuning->own = &own_server;
        if (own_server_data_dir(option_text(&tuning->specs[DATA_DIR], NULL), tuning->arena, &own_server.data_dir,
                                &error) < 0)
            return command_misused("tune", "%s", error.text);
    }
    catch_interrupts();
    event_reader_init(&tuning->reader, take_event, tuning);
    int status = run_on(tuning, &error) < 0 ? report(tuning, &error) : 0;
    event_reader_release(&tuning->reader);
    client_close(tuning->client);
    own_server_close(&own_server);
    arena_free(tuning->arena);
    return status;
}

int cmd_tune(int argc, char **argv) {
    struct error error;
    struct tuning tuning = {.specs = {[SERVER] = {"--server"},
                                      [DATA_DIR] = {"--data-dir"},
                                      [TOKEN] = {"--token"},
                                      [CA] = {"--ca"},
                                      [NAME] = {"--name"},
                                      [DEVICE] = {"--device"},
                                      [PRECISION] = {"--precision"},
                                      [LAYOUT] = {"--layout"},
                                      [BATCH] = {"--batch"},
                                      [TRIALS] = {"--trials"},
                                      [TUNER] = {"--tuner"},
                                      [BUDGET] = {"--budget"},
                                      [OUTPUT] = {"-o", "--output"},
                                      [CONFIG] = {"--config"},
                                      [WAIT] = {"--wait", NULL, true},
                                      [NO_WAIT] = {"--no-wait", NULL, true},
                                      [JOB] = {"--job"},
                                      [HELP] = {"--help", "-h", true}}};
    if (read_options(&tuning, argc, argv, &error) < 0)
        return command_misused("tune", "%s", error.text);
    if (tuning.specs[HELP].n_values) {
        puts(help);
        return 0;
    }
    const char *server = from_environment(&tuning.specs[SERVER], "WARPTUNE_URL");
    const char *token = from_environment(&tuning.specs[TOKEN], "WARPTUNE_TOKEN");
    const char *wrong = misuse(&tuning, server ? server : "", token);
    if (wrong)
        return command_misused("tune", "%s", wrong);
    char host[WEB_URL_HOST];
    if (server && web_url_check(server, "--server", host, &error) < 0)
        return command_misused("tune", "%s", error.text);
    for (int option = OUTPUT; option <= CONFIG; option++)
        if (tuning.specs[option].n_values && client_check_download(tuning.specs[option].values[0], &error) < 0)
            return command_failed("tune", &error);
    tuning.connection = (struct client_options){
        .server = server, .token = token, .ca = option_text(&tuning.specs[CA], NULL), .stop = is_over};
    return tune(&tuning, server);
}
