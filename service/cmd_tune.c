/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_tune.c: `warptune tune`: a network to a server, its job followed to the end, what came of it into files. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/base/arena.h"
#include "service/base/json.h"
#include "service/base/web_url.h"
#include "service/client.h"
#include "service/commands.h"
#include "service/options.h"
#include "service/own_server.h"
#include "service/target_file.h"
#include "service/tune_show.h"
#include "service/tune_submit.h"

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
    "  --precision P      fp32, fp16, bf16 or tf32 (fp32)\n"
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
    struct tune_show show;
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

/* ---- from a network to what came of it ---- */

static int submit(struct tuning *tuning, struct error *error) {
    const struct option_spec *specs = tuning->specs;
    const struct tune_wishes wishes = {.model = tuning->model,
                                       .name = option_text(&specs[NAME], NULL),
                                       .device = option_text(&specs[DEVICE], NULL),
                                       .precision = option_text(&specs[PRECISION], NULL),
                                       .layout = option_text(&specs[LAYOUT], NULL),
                                       .tuner = option_text(&specs[TUNER], NULL),
                                       .batch = tuning->batch,
                                       .trials = tuning->trials,
                                       .budget_s = tuning->budget_s};
    bool begun;
    if (tune_submit(tuning->client, &wishes, tuning->own, tuning->arena, &tuning->job, &begun, error) < 0)
        return -1;
    if (begun)
        tune_show_line(&tuning->show, "this was begun before: going on");
    return 0;
}

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
    tune_show_line(&tuning->show, "%s: %lld bytes", file, (long long)bytes);
    return 0;
}

static int show_end(struct tuning *tuning, struct error *error) {
    struct json_object *job CLEANUP(json_put_p) = NULL;
    if (client_get(tuning->client, job_path(tuning, ""), &job, error) < 0)
        return -1;
    return tune_show_end(&tuning->show, job, error);
}

static int follow(struct tuning *tuning, struct error *error) {
    bool ended = *tuning->show.end; /* before the server went away */
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
        tune_show_line(&tuning->show, waits ? "job %s" : "%s", tuning->job);
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

/* Before anything is uploaded or started. */
static int check_targets(const struct option_spec *specs, struct error *error) {
    static const int options[] = {OUTPUT, CONFIG};
    for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
        const struct option_spec *spec = &specs[options[i]];
        if (spec->n_values && target_file_check(spec->name, spec->values[0], error) < 0)
            return -1;
    }
    return 0;
}

static const char *from_environment(const struct option_spec *spec, const char *name) {
    const char *value = getenv(name);
    return option_text(spec, value && *value ? value : NULL);
}

static int report(struct tuning *tuning, const struct error *error) {
    tune_show_close_line(&tuning->show);
    if (error->class != ERROR_CANCELLED)
        return command_failed("tune", error);
    if (!tuning->job)
        fputs("warptune tune: interrupted; no job was submitted.\n", stderr);
    else if (tuning->own)
        tune_show_kept(tuning->job, tuning->own->data_dir, tuning->own->devices);
    else
        tune_show_left(tuning->job, client_server(tuning->client),
                       from_environment(&tuning->specs[TOKEN], "WARPTUNE_TOKEN"));
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
        tune_show_line(&tuning->show, "the server is gone");
    }
    return -1;
}

static int tune(struct tuning *tuning, const char *server) {
    struct error error;
    tuning->arena = arena_new(0);
    tuning->show.on_terminal = isatty(STDOUT_FILENO);
    if (!server) {
        own_server.stop = is_interrupted;
        own_server.devices = option_text(&tuning->specs[DEVICE], NULL);
        tuning->own = &own_server;
        if (own_server_data_dir(option_text(&tuning->specs[DATA_DIR], NULL), tuning->arena, &own_server.data_dir,
                                &error) < 0)
            return command_misused("tune", "%s", error.text);
    }
    catch_interrupts();
    event_reader_init(&tuning->reader, tune_show_event, &tuning->show);
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
    if (check_targets(tuning.specs, &error) < 0)
        return command_failed("tune", &error);
    tuning.connection = (struct client_options){
        .server = server, .token = token, .ca = option_text(&tuning.specs[CA], NULL), .stop = is_over};
    return tune(&tuning, server);
}
