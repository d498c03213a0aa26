/* SPDX-License-Identifier: Apache-2.0 */
/* cubin_info.h: what a cubin (an ELF file) says of its kernels: registers, stack frames, parameters. */
#ifndef WARPTUNE_TESTS_CUBIN_INFO_H
#define WARPTUNE_TESTS_CUBIN_INFO_H

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "service/base/buf.h"

#define CUBIN_MOST_PARAMS 64

struct cubin_info {
    int registers; /* the most of any of its kernels */
    int frame;     /* bytes of stack, likewise: 0 when nothing is spilled */
};

/* One attribute of a .nv.info section: a format, a number, and with format 4 as many bytes as it says. */
struct cubin_attribute {
    int number;
    uint32_t words[4];
};

/* Takes the next one off [*at, end). */
static inline bool cubin_next(const unsigned char **at, const unsigned char *end, struct cubin_attribute *ret) {
    uint16_t size = 0;
    if (end - *at < 4)
        return false;
    memcpy(&size, *at + 2, sizeof size);
    size_t len = (*at)[0] == 4 ? size : 0;
    if ((size_t)(end - *at) < 4 + len)
        return false;
    *ret = (struct cubin_attribute){.number = (*at)[1]};
    memcpy(ret->words, *at + 4, len < sizeof ret->words ? len : sizeof ret->words);
    *at += 4 + len;
    return true;
}

static inline bool cubin_section(const struct buf *cubin, const char *name, const unsigned char **ret_at,
                                 const unsigned char **ret_end) {
    const unsigned char *data = (const unsigned char *)cubin->data;
    Elf64_Ehdr header;
    Elf64_Shdr names, section;
    memcpy(&header, data, sizeof header);
    memcpy(&names, data + header.e_shoff + (size_t)header.e_shstrndx * sizeof names, sizeof names);
    for (int i = 0; i < header.e_shnum; i++) {
        memcpy(&section, data + header.e_shoff + (size_t)i * sizeof section, sizeof section);
        if (strcmp((const char *)data + names.sh_offset + section.sh_name, name) == 0) {
            *ret_at = data + section.sh_offset;
            *ret_end = *ret_at + section.sh_size;
            return true;
        }
    }
    return false;
}

static inline struct cubin_info cubin_info_of(const struct buf *cubin) {
    enum { FRAME = 0x11, REGISTERS = 0x2f };
    struct cubin_info info = {0};
    struct cubin_attribute attribute;
    const unsigned char *at, *end;
    if (!cubin_section(cubin, ".nv.info", &at, &end))
        return info;
    while (cubin_next(&at, end, &attribute)) {
        int value = (int)attribute.words[1]; /* words[0] is the kernel */
        if (attribute.number == FRAME && value > info.frame)
            info.frame = value;
        if (attribute.number == REGISTERS && value > info.registers)
            info.registers = value;
    }
    return info;
}

/* The sizes of the kernel's parameters, in order; returns how many, or -1 when there is no such kernel. */
static inline int cubin_params(const struct buf *cubin, const char *entry, int ret_bytes[CUBIN_MOST_PARAMS]) {
    enum { PARAMETER = 0x17 };
    char name[128];
    struct cubin_attribute attribute;
    const unsigned char *at, *end;
    int n = 0;
    snprintf(name, sizeof name, ".nv.info.%s", entry);
    if (!cubin_section(cubin, name, &at, &end))
        return -1;
    while (cubin_next(&at, end, &attribute)) {
        int ordinal = (int)(attribute.words[1] & 0xffff);
        if (attribute.number != PARAMETER || ordinal >= CUBIN_MOST_PARAMS)
            continue;
        ret_bytes[ordinal] = (int)(attribute.words[2] >> 18);
        n++;
    }
    return n;
}

#endif
