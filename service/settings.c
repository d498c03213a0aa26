/* SPDX-License-Identifier: Apache-2.0 */
#include "service/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/base/file.h"

enum setting_type { SETTING_TEXT, SETTING_FLAG, SETTING_NUMBER };

struct setting {
    const char *name; /* as on the command line */
    enum setting_type type;
    size_t offset;
    const char *fallback;
    int64_t min, max; /* numbers */
    const char *help;
};

#define TEXT(field, option, fallback, help) \
    { option, SETTING_TEXT, offsetof(struct settings, field), fallback, 0, 0, help }
#define FLAG(field, option, help) \
    { option, SETTING_FLAG, offsetof(struct settings, field), "0", 0, 1, help }
#define NUMBER(field, option, fallback, min, max, help) \
    { option, SETTING_NUMBER, offsetof(struct settings, field), fallback, min, max, help }

static const struct setting table[] = {
    TEXT(listen, "listen", "127.0.0.1:8080", "address and port to serve HTTP on; port 0 takes a free one"),
    TEXT(data_dir, "data-dir", "",
         "folder for the private database and caches (default ~/.local/share/warptune; /var/lib/warptune as root)"),
    TEXT(database_url, "database-url", "", "PostgreSQL to use; without it a private cluster runs in the data folder"),
    TEXT(devices, "devices", "auto", "what to tune on: cpu, cuda:0, a list of them, all, or auto (GPUs, else the CPU)"),
    TEXT(key, "key", "", "a label of this worker that jobs can ask for"),
    TEXT(user, "user", "", "as root: the user to become once the address is taken and the TLS key is read"),
    TEXT(log_level, "log-level", "info", "debug, info, warn or error"),
    TEXT(cors_origins, "cors-origins", "",
         "origins whose web pages may use the interface: https://HOST, http://HOST:PORT, a list of them, or *"),
    FLAG(no_worker, "no-worker", "serve HTTP only; workers run elsewhere"),
    FLAG(allow_anonymous, "allow-anonymous", "without any token, serve other hosts, too: everybody may do everything"),
    NUMBER(builders, "builders", "0", 0, 256, "compiler processes of each device; 0: one for each core"),
    NUMBER(http_threads, "http-threads", "0", 0, 256, "threads that answer requests; 0: four for each core"),
    NUMBER(max_connections, "max-connections", "4096", 16, 100000, "open HTTP connections"),
    NUMBER(max_waiters, "max-waiters", "2500", 1, 90000, "long polls and event streams open at a time"),
    NUMBER(max_upload_mb, "max-upload-mb", "2048", 1, 1000000, "largest model file, in MB"),
    NUMBER(max_open_jobs, "max-open-jobs", "20000", 1, 10000000, "jobs that wait or run at a time"),
    NUMBER(request_timeout_s, "request-timeout", "600", 1, 86400, "seconds that one request's body may take to arrive"),
    TEXT(webhook_backoff, "webhook-backoff", "5,300,1800,7200,18000,36000,50400,72000,86400",
         "seconds to wait after each failed attempt of a webhook's delivery, before the next"),
    FLAG(webhook_allow_private, "webhook-allow-private", "deliver webhooks to private and loopback addresses, too"),
    TEXT(tls_cert, "tls-cert", "", "file with the certificate and its chain (PEM): HTTPS; read again on SIGHUP"),
    TEXT(tls_key, "tls-key", "", "file with the certificate's private key (PEM)"),
    FLAG(trust_proxy, "trust-proxy",
         "believe X-Forwarded-For and X-Forwarded-Host: only behind a proxy that sets them"),
    NUMBER(drain_s, "drain-seconds", "20", 0, 3600, "after SIGTERM: how long trials under way may take to finish"),
    NUMBER(keep_events_days, "keep-events-days", "30", 0, 36500,
           "days after a job's end until its progress and trial events are deleted; 0: never"),
    NUMBER(keep_logs_days, "keep-logs-days", "90", 0, 36500, "the same for its log; 0: never"),
    NUMBER(keep_trials_days, "keep-trials-days", "0", 0, 36500, "the same for its trials but the best; 0: never"),
    NUMBER(keep_jobs_days, "keep-jobs-days", "0", 0, 36500,
           "the same for the job, unless a best configuration or golden set came from it; 0: never"),
    NUMBER(keep_models_days, "keep-models-days", "0", 0, 36500,
           "days after which a model that no job uses is deleted; 0: never"),
};

static const struct setting *find(const char *name, size_t len) {
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

static int assign(struct settings *settings, const struct setting *setting, const char *value, const char *where,
                  struct error *error) {
    char *field = (char *)settings + setting->offset;
    if (setting->type == SETTING_TEXT) {
        *(const char **)field = value;
        return 0;
    }
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < setting->min || number > setting->max)
        return error_set(error, ERROR_INVALID, "bad-setting", setting->name,
                         "%s: '%s' is '%.60s', but must be a whole number from %lld to %lld.", where, setting->name,
                         value, (long long)setting->min, (long long)setting->max);
    if (setting->type == SETTING_FLAG)
        *(bool *)field = number != 0;
    else
        *(int64_t *)field = number;
    return 0;
}

/* WARPTUNE_DATA_DIR for data-dir. */
static const char *environment_value(const struct setting *setting) {
    char name[64] = "WARPTUNE_";
    size_t at = strlen(name);
    for (const char *c = setting->name; *c && at + 1 < sizeof name; c++)
        name[at++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    name[at] = 0;
    return getenv(name);
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        text[--len] = 0;
    return text;
}

/* One `name = value` of the file; blank lines and those that start with # say nothing. */
static int read_line(struct settings *settings, char *line, const char *where, struct error *error) {
    char *text = trim(line);
    if (!*text || *text == '#')
        return 0;
    char *equals = strchr(text, '=');
    if (!equals)
        return error_set(error, ERROR_INVALID, "bad-setting", NULL, "%s: expected `name = value`.", where);
    *equals = 0;
    char *name = trim(text);
    const struct setting *setting = find(name, strlen(name));
    if (!setting)
        return error_set(error, ERROR_INVALID, "unknown-setting", name, "%s: there is no setting '%.60s'.", where,
                         name);
    return assign(settings, setting, trim(equals + 1), where, error);
}

static int read_file(struct settings *settings, const char *path, struct arena *arena, struct error *error) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (file_read(path, text.max, &text, error) < 0)
        return -1;
    char *copy = arena_strdup(arena, buf_str(&text));
    int number = 0;
    for (char *line = copy; line;) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        if (read_line(settings, line, arena_printf(arena, "%s:%d", path, ++number), error) < 0)
            return -1;
        line = next;
    }
    return 0;
}

/* One option of the command line; *index moves over what it took. */
static int read_option(struct settings *settings, int argc, char **argv, int *index, struct error *error) {
    const char *option = argv[*index];
    if (strncmp(option, "--", 2) != 0)
        return error_set(error, ERROR_INVALID, "unknown-option", option, "Unexpected '%.80s'; see --help.", option);
    const char *name = option + 2, *equals = strchr(name, '=');
    const struct setting *setting = find(name, equals ? (size_t)(equals - name) : strlen(name));
    if (!setting)
        return error_set(error, ERROR_INVALID, "unknown-option", option, "There is no option '%.80s'; see --help.",
                         option);
    if (setting->type == SETTING_FLAG && !equals)
        return assign(settings, setting, "1", "command line", error);
    if (equals)
        return assign(settings, setting, equals + 1, "command line", error);
    if (*index + 1 >= argc)
        return error_set(error, ERROR_INVALID, "missing-value", option, "%.80s needs a value.", option);
    return assign(settings, setting, argv[++*index], "command line", error);
}

/* The file's name: --config on the command line, else the environment; *index 0 when not on the command line. */
static const char *config_path(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--config") == 0)
            return argv[i + 1];
    return getenv("WARPTUNE_CONFIG");
}

int settings_load(struct settings *ret, int argc, char **argv, struct arena *arena, struct error *error) {
    struct settings settings = {0};
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        if (assign(&settings, &table[i], table[i].fallback, "default", error) < 0)
            return -1;
    const char *path = config_path(argc, argv);
    if (path && read_file(&settings, path, arena, error) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        const char *value = environment_value(&table[i]);
        if (value && assign(&settings, &table[i], value, "environment", error) < 0)
            return -1;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            i++;
        else if (read_option(&settings, argc, argv, &i, error) < 0)
            return -1;
    }
    if (!*settings.data_dir) {
        const char *home = getenv("HOME");
        bool own_home = geteuid() != 0 && home && *home;
        settings.data_dir = own_home ? arena_printf(arena, "%s/.local/share/warptune", home) : "/var/lib/warptune";
    }
    *ret = settings;
    return 0;
}

void settings_help(struct buf *ret) {
    for (size_t i = 0; i < ARRAY_COUNT(table); i++) {
        const struct setting *setting = &table[i];
        buf_printf(ret, "  --%-18s %s", setting->name, setting->help);
        if (setting->type != SETTING_FLAG && *setting->fallback)
            buf_printf(ret, " [%s]", setting->fallback);
        buf_putc(ret, '\n');
    }
    buf_puts(
        ret,
        "  --config FILE        reads `name = value` lines; every setting is also WARPTUNE_NAME in the environment\n");
}
