/* SPDX-License-Identifier: Apache-2.0 */
/* report_text.h: what the written forms of a report share: escaped texts, and figures as people read them. */
#ifndef WARPTUNE_API_REPORT_TEXT_H
#define WARPTUNE_API_REPORT_TEXT_H

#include "api/report.h"

/*
 * Text for XML and HTML, in an element or in an attribute with double quotes. What XML 1.0 cannot hold at all becomes
 * U+FFFD; line breaks and tabs become references, so that attributes keep them.
 */
void put_xml(struct buf *out, const char *text);
/*
 * Text as <code> in a table's cell of GitHub's Markdown: nothing in it is markup, a mention, a link or the cell's end.
 * Line breaks become spaces; an empty text is nothing.
 */
void put_markdown_code(struct buf *out, const char *text);

/* With three significant digits or more, "–" when not known: "12.3 µs", "1.04×", "87.5 %". */
void put_us(struct buf *out, double us);
void put_ratio(struct buf *out, double ratio);
void put_percent(struct buf *out, double part);
/* "1,234.5 samples/s" without the comma; "–" when not known. */
void put_rate(struct buf *out, double per_s);

/* One sentence on how the job does against its reference; "" when it is held against none. */
void put_summary(struct buf *out, const struct report *report);
/* "job 0191…" or "golden set 3 (job 0191…)". */
void put_reference(struct buf *out, const struct report_reference *reference);
/* How often it failed with what: "build_failed 3, timeout 1"; "none". */
void put_errors(struct buf *out, const struct task_row *task);
/* Trials of its search, or whose search served it. */
void put_trials(struct buf *out, const struct task_row *task);

#endif
