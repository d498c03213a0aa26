/* SPDX-License-Identifier: Apache-2.0 */
/* sample_networks.h: the architectures, as torchvision defines them for 1,000 classes. Private to sample*.c. */
#ifndef WARPTUNE_MODEL_SAMPLE_NETWORKS_H
#define WARPTUNE_MODEL_SAMPLE_NETWORKS_H

#include "service/model/sample_net.h"

#define SAMPLE_CLASSES 1000

struct sample_network {
    const char *name; /* NULL ends the table */
    /* Adds the layers between the input and the output, which it returns: N × SAMPLE_CLASSES. */
    struct feature (*build)(struct net *net, struct feature input, const void *spec);
    const void *spec; /* its family's description of this member */
};

extern const struct sample_network sample_networks[];
extern const char *const sample_network_names[]; /* NULL-terminated, in the same order */

#endif
