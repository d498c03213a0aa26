/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "service/base/clock.h"
#include "service/commands.h"
#include "service/options.h"
#include "service/serving.h"
#include "service/store/token_store.h"

enum { PROJECT, NAME, SCOPE, DATA_DIR, DATABASE_URL, HELP, N_OPTIONS };

static void print_help(void) {
    puts("usage: warptune token create [--project NAME] [--name TEXT] [--scope read|submit|admin]…\n"
         "       warptune token list [--project NAME]\n"
         "       warptune token revoke ID\n\n"
         "The tokens of the database (--database-url URL, or the private one in --data-dir DIR, whether or not a "
         "server\n"
         "runs on it). A new one is printed once, alone on a line. Without --project: `default`, whose admins may do\n"
         "everything on the server. Without --scope: submit. From the first token on the server wants one of "
         "everybody.");
}

static int create(struct serving *serving, const struct option_spec *specs, struct error *error) {
    struct token_new wanted = {.name = option_text(&specs[NAME], "warptune token create")};
    struct project_row *project;
    struct token_row *token;
    char secret[SECRET_TOKEN_TEXT];
    for (int i = 0; i < specs[SCOPE].n_values; i++) {
        enum scope scope;
        if (scope_parse(specs[SCOPE].values[i], &scope, error) < 0)
            return -1;
        wanted.scopes |= 1u << scope;
    }
    if (!wanted.scopes)
        wanted.scopes = 1u << SCOPE_SUBMIT;
    if (project_find(serving->db, option_text(&specs[PROJECT], "default"), serving->arena, &project, error) < 0)
        return -1;
    wanted.project_id = project->id;
    if (token_create(serving->db, &wanted, serving->arena, &token, secret, error) < 0)
        return -1;
    fprintf(stderr, "token %s of project %s; it is not shown again:\n", token->id, token->project);
    puts(secret);
    return 0;
}

static const char *time_text(int64_t us, char text[32]) {
    if (us == 0)
        return "-";
    clock_format(us, text);
    return text;
}

static void print_token(const struct token_row *token) {
    char used[32];
    printf("%s  %-8s", token->id, token->shown);
    for (int i = SCOPE_READ; i < SCOPE_COUNT; i++)
        printf(" %-6s", token->scopes & 1u << i ? scope_name((enum scope)i) : "");
    printf("  %-24s  %-7s  %s: %s\n", time_text(token->last_used_us, used), token->revoked_us ? "revoked" : "valid",
           token->project, token->name);
}

static int list(struct serving *serving, const struct option_spec *specs, struct error *error) {
    struct token_filter filter = {.limit = 1000};
    const char *name = option_text(&specs[PROJECT], NULL);
    if (name) {
        struct project_row *project;
        if (project_find(serving->db, name, serving->arena, &project, error) < 0)
            return -1;
        filter.project_id = project->id;
    }
    for (bool more = true; more;) {
        struct token_row *tokens;
        int n;
        if (token_list(serving->db, &filter, serving->arena, &tokens, &n, &more, error) < 0)
            return -1;
        for (int i = 0; i < n; i++)
            print_token(&tokens[i]);
        if (more)
            filter.after = tokens[n - 1].id;
    }
    return 0;
}

static int run(struct serving *serving, const char *verb, const char *id, const struct option_spec *specs,
               struct error *error) {
    if (serving_open_beside(serving, option_text(&specs[DATA_DIR], NULL), option_text(&specs[DATABASE_URL], NULL),
                            error) < 0)
        return -1;
    if (strcmp(verb, "create") == 0)
        return create(serving, specs, error);
    return strcmp(verb, "list") == 0 ? list(serving, specs, error) : token_revoke(serving->db, id, NULL, error);
}

int cmd_token(int argc, char **argv) {
    struct option_spec specs[N_OPTIONS] = {[PROJECT] = {"--project"},
                                           [NAME] = {"--name"},
                                           [SCOPE] = {"--scope"},
                                           [DATA_DIR] = {"--data-dir"},
                                           [DATABASE_URL] = {"--database-url"},
                                           [HELP] = {"--help", "-h", true}};
    const char *words[2] = {NULL, NULL};
    struct serving serving = {0};
    struct error error;
    int n_words;
    if (options_parse(argc, argv, specs, N_OPTIONS, words, 2, &n_words, &error) < 0)
        return command_misused("token", "%s", error.text);
    if (specs[HELP].n_values) {
        print_help();
        return 0;
    }
    bool revoke = words[0] && strcmp(words[0], "revoke") == 0;
    bool other = words[0] && (strcmp(words[0], "create") == 0 || strcmp(words[0], "list") == 0);
    if (!(revoke ? n_words == 2 : other && n_words == 1))
        return command_misused("token", "Is it create, list, or revoke ID?");
    int status = run(&serving, words[0], words[1], specs, &error) < 0 ? command_failed("token", &error) : 0;
    serving_close(&serving);
    return status;
}
