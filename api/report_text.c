/* SPDX-License-Identifier: Apache-2.0 */
#include "api/report_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "gpu/measure/measure.h"
#include "service/base/utf8.h"

#define UNKNOWN "–"

/* ---- escaping ---- */

/* Of a control character, U+FFFE and U+FFFF XML knows no form. */
static bool xml_forbids(const char *text, size_t len) {
    unsigned char c = (unsigned char)text[0];
    if (len == 1)
        return c < 0x20 && c != '\t' && c != '\n' && c != '\r';
    return len == 3 && memcmp(text, "\xef\xbf", 2) == 0 && (unsigned char)text[2] >= 0xbe;
}

void put_xml(struct buf *out, const char *text) {
    for (size_t left = strlen(text), len; left; text += len, left -= len) {
        len = utf8_sequence(text, left);
        if (len == 0 || xml_forbids(text, len)) {
            buf_puts(out, "\xef\xbf\xbd");
            len = len ? len : 1;
        } else if (len == 1 && strchr("&<>\"'\t\n\r", *text)) {
            buf_printf(out, "&#%d;", *text);
        } else {
            buf_append(out, text, len);
        }
    }
}

/* What can begin or end markup, a cell, a mention, a formula or an emoji somewhere in GitHub's or GitLab's Markdown. */
static bool is_markup(const char *at) {
    return strchr("&<>\"'`*_{}[]|\\~@#!$^", *at) || (*at == ':' && at[1] == '/');
}

void put_markdown_code(struct buf *out, const char *text) {
    if (!*text)
        return;
    buf_puts(out, "<code>");
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            buf_putc(out, ' ');
        else if (is_markup(at))
            buf_printf(out, "&#%d;", *at);
        else
            buf_putc(out, *at);
    }
    buf_puts(out, "</code>");
}

/* ---- figures ---- */

static void put_number(struct buf *out, double number) {
    buf_printf(out, "%.*f", fabs(number) < 10 ? 3 : fabs(number) < 100 ? 2 : 1, number);
}

void put_us(struct buf *out, double us) {
    if (!isfinite(us)) {
        buf_puts(out, UNKNOWN);
        return;
    }
    put_number(out, us);
    buf_puts(out, " µs");
}

void put_ratio(struct buf *out, double ratio) {
    if (isfinite(ratio))
        buf_printf(out, "%.*f×", ratio < 10 ? 3 : 1, ratio);
    else
        buf_puts(out, UNKNOWN);
}

void put_percent(struct buf *out, double part) {
    if (isfinite(part))
        buf_printf(out, "%.1f %%", part * 100);
    else
        buf_puts(out, UNKNOWN);
}

void put_rate(struct buf *out, double per_s) {
    if (isfinite(per_s))
        buf_printf(out, "%.1f samples/s", per_s);
    else
        buf_puts(out, UNKNOWN);
}

/* ---- sentences ---- */

void put_reference(struct buf *out, const struct report_reference *reference) {
    if (reference->golden)
        buf_printf(out, "golden set %" PRId64 " (job %s)", reference->golden, reference->job_id);
    else
        buf_printf(out, "job %s", reference->job_id);
}

void put_summary(struct buf *out, const struct report *report) {
    const struct report_reference *reference = &report->reference;
    if (!reference->job_id)
        return;
    if (report->n_regressions)
        buf_printf(out, "%d %s against ", report->n_regressions,
                   report->n_regressions == 1 ? "regression" : "regressions");
    else
        buf_puts(out, "No regression against ");
    put_reference(out, reference);
    buf_printf(out, ", at a limit of %g×", reference->limit);
    if (isfinite(report->network.ratio)) {
        buf_puts(out, "; the whole network at ");
        put_ratio(out, report->network.ratio);
    } else if (isfinite(reference->layers_ratio)) {
        buf_puts(out, "; the layers that both have at ");
        put_ratio(out, reference->layers_ratio);
    }
    buf_puts(out, ".");
    if (reference->n_missing)
        buf_printf(out, " %d of its layers %s not in this job.", reference->n_missing,
                   reference->n_missing == 1 ? "is" : "are");
}

void put_errors(struct buf *out, const struct task_row *task) {
    bool any = false;
    for (int i = TRIAL_OK + 1; i < TASK_ERROR_COUNT; i++) {
        if (!task->errors[i])
            continue;
        buf_printf(out, "%s%s %" PRId64, any ? ", " : "", trial_error_name((enum trial_error)i), task->errors[i]);
        any = true;
    }
    if (!any)
        buf_puts(out, "none");
}

void put_trials(struct buf *out, const struct task_row *task) {
    if (task->served)
        buf_puts(out, "reused");
    else
        buf_printf(out, "%" PRId64, task->trials_done);
}
