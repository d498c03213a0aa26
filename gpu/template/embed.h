/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embed.h: a text file as a C string in the program. The path is relative to the repository's root, where the build
 * runs; the Makefile rebuilds the reader when the file changes.
 */
#ifndef WARPTUNE_TEMPLATE_EMBED_H
#define WARPTUNE_TEMPLATE_EMBED_H

#define EMBED(symbol, path)              \
    __asm__(".section .rodata\n"         \
            ".balign 16\n" #symbol ":\n" \
            ".incbin \"" path "\"\n"     \
            ".byte 0\n"                  \
            ".previous\n");              \
    extern const char symbol[] __attribute__((visibility("hidden")))

#endif
