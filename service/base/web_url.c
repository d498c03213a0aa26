/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/web_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

static int bad(const char *field, const char *why, struct error *error) {
    return error_set(error, ERROR_INVALID, "bad-url", field, "'%s' %s.", field, why);
}

static int check_text(const char *url, const char *field, struct error *error) {
    size_t len = strlen(url);
    if (len > WEB_URL_MOST)
        return error_set(error, ERROR_INVALID, "bad-url", field, "'%s' may have at most %d characters.", field,
                         WEB_URL_MOST);
    for (size_t i = 0; i < len; i++)
        if (url[i] < 0x21 || url[i] > 0x7e)
            return bad(field, "must be printable ASCII without blanks; escape the rest", error);
    return 0;
}

/* The scheme and the host are there and are such as we call. */
static int check_parts(CURLU *parts, const char *field, char ret_host[WEB_URL_HOST], struct error *error) {
    char *scheme = NULL, *host = NULL;
    int status = 0;
    if (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        status = bad(field, "must begin with https:// or http://", error);
    else if (curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK || !*host || strlen(host) >= WEB_URL_HOST)
        status = bad(field, "must name a host", error);
    else
        snprintf(ret_host, WEB_URL_HOST, "%s", host);
    curl_free(scheme);
    curl_free(host);
    return status;
}

int web_url_check(const char *url, const char *field, char ret_host[WEB_URL_HOST], struct error *error) {
    if (check_text(url, field, error) < 0)
        return -1;
    CURLU *parts = curl_url();
    if (!parts)
        abort();
    CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER | CURLU_NON_SUPPORT_SCHEME);
    int status = code == CURLUE_USER_NOT_ALLOWED ? bad(field, "may not hold a user or password", error)
                 : code != CURLUE_OK             ? bad(field, "is not a URL", error)
                                                 : check_parts(parts, field, ret_host, error);
    curl_url_cleanup(parts);
    return status;
}
