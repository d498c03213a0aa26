/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/module_output.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/base/file.h"

int module_output_open(const char *path, struct module_output *ret, struct error *error) {
    ret->path = path;
    if (snprintf(ret->temporary, sizeof ret->temporary, "%s.XXXXXX", path) >= (int)sizeof ret->temporary)
        return error_set(error, ERROR_LIMIT, "path-too-long", NULL, "The path %.100s… is too long.", path);
    ret->fd = mkostemp(ret->temporary, O_CLOEXEC);
    if (ret->fd < 0)
        return file_failed(error, "write", ret->temporary);
    return 0;
}

int module_output_close(struct module_output *output, int rc, struct error *error) {
    if (rc == 0 && fchmod(output->fd, 0644) < 0)
        rc = error_set(error, ERROR_IO, "cannot-write", NULL, "Cannot set the mode of %s: %m.", output->temporary);
    if (close(output->fd) < 0 && rc == 0)
        rc = file_failed(error, "write", output->temporary);
    if (rc == 0 && rename(output->temporary, output->path) < 0)
        rc = error_set(error, ERROR_IO, "cannot-write", NULL, "Cannot rename %s to %s: %m.", output->temporary,
                       output->path);
    if (rc < 0)
        unlink(output->temporary);
    return rc;
}
