/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_warps.cpp: what stands in front of a kernel's text to run it on the host (cuda_warps.h): CUDA's words made to
 * vanish, and the instructions that conv2d_mma.cu and conv2d_wgmma.cu keep in functions of their own, as a GPU does
 * them. In front of this text: EMULATE_BF16 and EMULATE_TF32, of which at most one is 1: what the elements are; else
 * halfs.
 *
 * A thread is a fibre. A warp's take turns, and change where they wait for one another: at what a warp does together.
 * It goes on until it waits at a barrier of the CTA or the cluster; then it is the next warp's turn, in rising and
 * falling order. Shared memory belongs to a CTA, begins at SHARED_BEGIN,
 * holds NaNs at first, and is reached by addresses alone, which are checked. An asynchronous copy's bytes appear when
 * its thread awaits them and no earlier, and must all be awaited. ldmatrix must not touch a bank twice. What is awaited
 * at a barrier in shared memory appears when some thread waits there; until then its place holds NaNs. Products of a
 * warpgroup take place when they are awaited, so that a stage given back too early shows; their operands are read as
 * their descriptors say.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)

enum { SHARED_BEGIN = 1024, MOST_THREADS = 8192, STACK = 65536, MOST_COPIES = 512 };

struct place3 {
    unsigned x, y, z;
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};
struct float4 {
    float x, y, z, w;
};

static inline uint2 make_uint2(unsigned x, unsigned y) {
    return uint2{x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline float __uint_as_float(unsigned bits) {
    return __int_as_float((int)bits);
}
static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline int min(int a, int b) {
    return a < b ? a : b;
}
extern "C" float expf(float);

static place3 threadIdx, blockIdx, blockDim, gridDim;

[[noreturn]] static void wrong(const char *what) {
    fprintf(stderr, "block %u %u %u, thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, what);
    abort();
}

/* ---- threads ---- */

struct meeting {
    int size, count;
    unsigned turn;
};

struct copy {
    unsigned to, bytes;
    int group;
    unsigned char data[16];
    bool bulk;
};

/* What a warp's lanes show one another; the two are used in turn. */
struct lane {
    unsigned address, a[4], b[2];
};
struct warp {
    struct meeting meeting;
    struct lane lanes[2][32];
};

/* In shared memory, but what it is made of lies here. The copies that it counts are kept until a thread awaits it. */
struct barrier {
    unsigned address, phase;
    int arrivals, pending;
    long bytes; /* still to come */
    struct copy *copies;
    int n_copies, room, copiers;
};

enum { MOST_BARRIERS = 64, MOST_GROUPS = 16, MOST_PRODUCTS = 64 };

/* A product that is not awaited yet. */
struct product {
    float *sum;
    int pixels, group;
    uint64_t m, n;
};

struct block {
    struct meeting meeting;
    struct meeting groups[MOST_GROUPS]; /* of part of its threads */
    struct barrier barriers[MOST_BARRIERS];
    int n_barriers;
    struct place3 index;
    struct warp warps[32];
    unsigned char *shared;
    unsigned shared_bytes;
};

struct thread {
    ucontext_t context;
    struct block *block;
    unsigned number;
    bool done, awaited;
    struct copy copies[MOST_COPIES];
    int n_copies, groups;
    struct product products[MOST_PRODUCTS];
    int n_products, product_groups;
    bool fenced; /* since it last waited at a barrier */
};

static struct thread *threads;
static struct block *blocks;
static struct meeting cluster_meeting;
static ucontext_t scheduler;
static struct thread *now;
static long moves; /* meetings that took place: none in a round of turns is a deadlock */
static void (*kernel_body)();

static void run_others() {
    struct thread *self = now;
    swapcontext(&self->context, &scheduler);
}

static unsigned arrive(struct meeting &meeting) {
    const unsigned turn = meeting.turn;
    if (++meeting.count == meeting.size) {
        meeting.count = 0;
        meeting.turn++;
        moves++;
    }
    return turn;
}

static void await(const struct meeting &meeting, unsigned turn) {
    while (meeting.turn == turn)
        run_others();
}

static void meet(struct meeting &meeting) {
    await(meeting, arrive(meeting));
}

static inline void __syncthreads() {
    meet(now->block->meeting);
}

static void thread_main() {
    kernel_body();
    if (now->n_copies > 0 || now->n_products > 0)
        wrong("ends with copies or products on their way");
    now->done = true;
    moves++;
    run_others();
}

/* ---- the kernel's instructions ---- */

static unsigned char *shared_at(const struct block *block, unsigned address, unsigned bytes) {
    if (address < SHARED_BEGIN || address + bytes > SHARED_BEGIN + block->shared_bytes)
        wrong("is outside shared memory");
    if (address % bytes != 0)
        wrong("is at no multiple of its size in shared memory");
    return block->shared + (address - SHARED_BEGIN);
}

static inline unsigned shared_begin() {
    return SHARED_BEGIN;
}

static void store_bytes(unsigned to, const void *from, unsigned bytes) {
    memcpy(shared_at(now->block, to, bytes), from, bytes);
}

static inline void store_shared(unsigned to, float value) {
    store_bytes(to, &value, 4);
}

static inline void store_shared(unsigned to, float first, float second) {
    const float both[] = {first, second};
    store_bytes(to, both, 8);
}

static inline void store_shared(unsigned to, const uint4 &value) {
    store_bytes(to, &value, 16);
}

static inline float4 load_shared(unsigned from) {
    float4 value;
    memcpy(&value, shared_at(now->block, from, 16), 16);
    return value;
}

/* All 32 lanes' words, once they are there. */
static const struct lane *show(const struct lane &own) {
    struct warp &warp = now->block->warps[now->number / 32];
    struct lane *lanes = warp.lanes[warp.meeting.turn % 2];
    lanes[now->number % 32] = own;
    meet(warp.meeting);
    return lanes;
}

static inline void load_matrices(unsigned from, unsigned (&matrix)[4]) {
    struct lane own = {};
    own.address = from;
    const struct lane *lanes = show(own);
    const int lane = now->number % 32;
    for (int m = 0; m < 4; m++) {
        unsigned banks = 0;
        for (int row = 0; row < 8; row++)
            banks |= 1u << lanes[m * 8 + row].address / 16 % 8;
        if (banks != 0xff)
            wrong("reads a matrix whose rows share banks");
        memcpy(&matrix[m], shared_at(now->block, lanes[m * 8 + lane / 4].address, 16) + lane % 4 * 4, 4);
    }
}

#if EMULATE_BF16
static inline float float_of(unsigned short bfloat) {
    return __uint_as_float((unsigned)bfloat << 16);
}

/* To nearest, ties to even; NaN stays one. */
static inline unsigned short element_of(float value) {
    const unsigned bits = __float_as_uint(value);
    return value != value ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#elif EMULATE_TF32
static inline float float_of(float value) {
    return value;
}

static inline float element_of(float value) {
    return value;
}

/* To nearest, ties away from zero; NaN stays one. */
static inline unsigned rounded(unsigned bits) {
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : (bits + 0x1000) & 0xffffe000;
}
#else
static inline float float_of(unsigned short half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent == 31  ? (fraction ? __builtin_nanf("") : __builtin_inff())
                       : exponent == 0 ? (float)fraction * 0x1p-24f
                                       : __int_as_float((exponent + 112) << 23 | fraction << 13);
    return half >> 15 ? -size : size;
}

/* To nearest, ties to even: adding 2^23 units rounds what is a number; NaN stays one. */
static inline unsigned short element_of(float value) {
    const unsigned sign = __builtin_signbit(value) ? 0x8000 : 0;
    const float size = __builtin_fabsf(value);
    if (size != size)
        return 0x7fff;
    if (size >= 65520.0f)
        return (unsigned short)(sign | 0x7c00);
    if (size < 0x1p-14f)
        return (unsigned short)(sign | (unsigned)(int)(size * 0x1p24f + 0x1p23f - 0x1p23f));
    unsigned bits;
    memcpy(&bits, &size, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1) - (112u << 23);
    return (unsigned short)(sign | bits >> 13);
}
#endif

/* The elements of a lane's word. An mma does not see the last 13 bits of what it takes for TF32. */
#if EMULATE_TF32
enum { IN_WORD = 1 };

static float element_in(unsigned word, int) {
    return __uint_as_float(word & 0xffffe000);
}
#else
enum { IN_WORD = 2 };

static float element_in(unsigned word, int which) {
    return float_of((unsigned short)(word >> which * 16));
}
#endif

static inline void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    struct lane own = {};
    memcpy(own.a, a, sizeof own.a);
    memcpy(own.b, b, sizeof own.b);
    const struct lane *lanes = show(own);
    const int lane = now->number % 32;
    for (int i = 0; i < 4; i++) {
        const int column = lane % 4 * 2 + i % 2, side = i / 2;
        for (int word = 0; word < 8; word++)
            for (int k = 0; k < IN_WORD; k++)
                sum[i] += element_in(lanes[lane / 4 * 4 + word % 4].a[side + word / 4 * 2], k) *
                          element_in(lanes[column * 4 + word % 4].b[word / 4], k);
    }
}

/* What a kernel that begins early may read only when it has awaited the one before. */
static uintptr_t late_begin, late_end;

extern "C" void set_late(const void *data, size_t bytes) {
    late_begin = (uintptr_t)data;
    late_end = late_begin + bytes;
}

template <int BYTES, bool CACHED> static inline void copy_async(unsigned to, const void *from, bool real) {
    if (now->n_copies == MOST_COPIES)
        wrong("has too many copies on their way");
    if (real && !now->awaited && (uintptr_t)from >= late_begin && (uintptr_t)from < late_end)
        wrong("reads what the kernel before may not have written yet");
    if (real && (uintptr_t)from % BYTES != 0)
        wrong("copies from no multiple of the copy's size");
    struct copy &copy = now->copies[now->n_copies++];
    copy.to = to;
    copy.bytes = BYTES;
    copy.group = now->groups;
    copy.bulk = false;
    memset(copy.data, 0, sizeof copy.data);
    if (real)
        memcpy(copy.data, from, BYTES);
    shared_at(now->block, to, BYTES);
}

static inline void commit_copies() {
    now->groups++;
}

template <int LEFT> static inline void await_copies() {
    int left = 0;
    for (int i = 0; i < now->n_copies; i++) {
        const struct copy copy = now->copies[i];
        if (copy.group < now->groups - LEFT)
            store_bytes(copy.to, copy.data, copy.bytes);
        else
            now->copies[left++] = copy;
    }
    now->n_copies = left;
}

static inline void let_next_begin() {
}

static inline void await_previous() {
    now->awaited = true;
}

static inline void cluster_sync() {
    meet(cluster_meeting);
}

static inline void cluster_meet() {
    meet(cluster_meeting);
}

static inline float4 load_cluster(unsigned from, int rank) {
    float4 value;
    if (rank < 0 || rank >= cluster_meeting.size / now->block->meeting.size)
        wrong("reads of a CTA that is not in the cluster");
    if (threads[rank * now->block->meeting.size].done)
        wrong("reads of a CTA that may have ended");
    memcpy(&value, shared_at(&blocks[rank], from, 16), 16);
    return value;
}

static inline void store_cluster(unsigned to, int rank, float a, float b, float c, float d) {
    const float all[] = {a, b, c, d};
    if (rank < 0 || rank >= cluster_meeting.size / now->block->meeting.size)
        wrong("stores to a CTA that is not in the cluster");
    if (threads[rank * now->block->meeting.size].done)
        wrong("stores to a CTA that may have ended");
    memcpy(shared_at(&blocks[rank], to, 16), all, 16);
}

/* ---- barriers in shared memory, and copies that they count ---- */

static struct barrier *barrier_at(unsigned address) {
    struct block *block = now->block;
    for (int i = 0; i < block->n_barriers; i++)
        if (block->barriers[i].address == address)
            return &block->barriers[i];
    wrong("uses a barrier that was not initialised");
}

static inline void barrier_init(unsigned address, int arrivals) {
    struct block *block = now->block;
    if (block->n_barriers == MOST_BARRIERS)
        wrong("has too many barriers");
    struct barrier *barrier = &block->barriers[block->n_barriers++];
    shared_at(block, address, 8);
    barrier->n_copies = barrier->copiers = 0;
    barrier->address = address;
    barrier->phase = 0;
    barrier->arrivals = barrier->pending = arrivals;
    barrier->bytes = 0;
}

static inline void barriers_ready() {
}

static void turn_if_complete(struct barrier *barrier) {
    if (barrier->pending > 0 || barrier->bytes != 0)
        return;
    barrier->pending = barrier->arrivals;
    barrier->phase++;
    moves++;
}

static inline void barrier_arrive(unsigned address) {
    struct barrier *barrier = barrier_at(address);
    if (barrier->pending == 0)
        wrong("arrives where all have arrived");
    barrier->pending--;
    turn_if_complete(barrier);
}

static inline void barrier_expect(unsigned address, int bytes) {
    barrier_at(address)->bytes += bytes;
    barrier_arrive(address);
}

/* Until it is there, what is copied is nothing that can be used. */
static void keep_copy(struct barrier *barrier, const struct copy &copy) {
    if (barrier->n_copies == barrier->room) {
        barrier->room = barrier->room ? barrier->room * 2 : 256;
        barrier->copies = (struct copy *)realloc(barrier->copies, (size_t)barrier->room * sizeof copy);
    }
    memset(shared_at(now->block, copy.to, copy.bytes), 0xff, copy.bytes);
    barrier->copies[barrier->n_copies++] = copy;
}

static inline void barrier_arrive_copied(unsigned address) {
    struct barrier *barrier = barrier_at(address);
    for (int i = 0; i < now->n_copies; i++)
        keep_copy(barrier, now->copies[i]);
    now->n_copies = 0;
    barrier->copiers++;
    moves++;
}

static inline void copy_bulk(unsigned to, const void *from, int bytes, unsigned address) {
    struct barrier *barrier = barrier_at(address);
    if ((uintptr_t)from % 16 != 0 || to % 16 != 0 || bytes % 16 != 0)
        wrong("copies what is no multiple of 16 bytes");
    for (int i = 0; i < bytes; i += 16) {
        struct copy copy = {to + (unsigned)i, 16, 0, {}, true};
        memcpy(copy.data, (const char *)from + i, 16);
        keep_copy(barrier, copy);
    }
    moves++;
}

static void land(struct barrier *barrier) {
    const int copiers = barrier->copiers;
    for (int i = 0; i < barrier->n_copies; i++) {
        const struct copy &copy = barrier->copies[i];
        store_bytes(copy.to, copy.data, copy.bytes);
        barrier->bytes -= copy.bulk ? copy.bytes : 0;
    }
    barrier->n_copies = barrier->copiers = 0;
    if (copiers > barrier->pending)
        wrong("copies for a barrier where all have arrived");
    barrier->pending -= copiers;
    turn_if_complete(barrier);
}

static inline void barrier_await(unsigned address, unsigned parity) {
    struct barrier *barrier = barrier_at(address);
    for (;;) {
        if (barrier->n_copies > 0 || barrier->copiers > 0)
            land(barrier);
        if (barrier->phase % 2 != parity)
            break;
        run_others();
    }
    now->fenced = false;
}

static inline void proxy_fence() {
    now->fenced = true;
}

template <int SIZE> static inline void group_sync(int number) {
    if (number <= 0 || number >= MOST_GROUPS)
        wrong("waits at a barrier that there is not, or that is the whole CTA's");
    struct meeting &meeting = now->block->groups[number];
    meeting.size = SIZE;
    meet(meeting);
}

/* ---- products of a warpgroup ---- */

/* A half of a tile with 64 of k in 128 bytes: eights of rows lie as the descriptor says, chunks as the address says. */
static float described(uint64_t tile, int row, int k) {
    if (tile >> 62 != 1 || (tile >> 49 & 7) != 0)
        wrong("multiplies what is not swizzled by 128 bytes");
    const unsigned eights = (tile >> 32 & 0x3fff) * 16, start = (tile & 0x3fff) * 16;
    unsigned address = start + row / 8 * eights + row % 8 * 128 + k * 2;
    unsigned short half;
    address ^= (address >> 7 & 7) << 4;
    memcpy(&half, shared_at(now->block, address, 2), 2);
    return float_of(half);
}

static void run_product(const struct product &product) {
    const int lane = now->number % 32, row = now->number / 32 % 4 * 16 + lane / 4;
    float m[2][16], n[16];
    for (int half = 0; half < 2; half++)
        for (int k = 0; k < 16; k++)
            m[half][k] = described(product.m, row + half * 8, k);
    for (int pixel = lane % 4 * 2; pixel < product.pixels; pixel += pixel % 2 ? 7 : 1) {
        for (int k = 0; k < 16; k++)
            n[k] = described(product.n, pixel, k);
        for (int half = 0; half < 2; half++)
            for (int k = 0; k < 16; k++)
                product.sum[pixel / 8 * 4 + half * 2 + pixel % 2] += m[half][k] * n[k];
    }
}

static inline void multiply_begin() {
}

template <int SUMS> static inline void multiply(float (&sum)[SUMS], uint64_t m, uint64_t n) {
    if (!now->fenced)
        wrong("multiplies what was copied without a fence");
    if (now->n_products == MOST_PRODUCTS)
        wrong("has too many products on their way");
    now->products[now->n_products++] = product{sum, SUMS * 2, now->product_groups, m, n};
}

static inline void multiply_commit() {
    now->product_groups++;
}

template <int LEFT> static inline void multiply_await() {
    int left = 0;
    for (int i = 0; i < now->n_products; i++) {
        const struct product product = now->products[i];
        if (product.group < now->product_groups - LEFT)
            run_product(product);
        else
            now->products[left++] = product;
    }
    now->n_products = left;
}

static inline void hold(float &) {
}

template <int REGISTERS> static inline void claim_registers() {
}

template <int REGISTERS> static inline void leave_registers() {
}

/* ---- matrices, turned ---- */

static const struct lane *show_rows(unsigned address) {
    struct lane own = {};
    own.address = address;
    const struct lane *lanes = show(own);
    for (int matrix = 0; matrix < 4; matrix++) {
        unsigned banks = 0;
        for (int row = 0; row < 8; row++)
            banks |= 1u << lanes[matrix * 8 + row].address / 16 % 8;
        if (banks != 0xff)
            wrong("takes a matrix whose rows share banks");
    }
    return lanes;
}

static inline void store_matrices_turned(unsigned to, const unsigned (&matrix)[4]) {
    const struct lane *lanes = show_rows(to);
    const int lane = now->number % 32;
    for (int i = 0; i < 8; i++) {
        const unsigned short half = (unsigned short)(matrix[i / 2] >> i % 2 * 16);
        const unsigned row = lanes[i / 2 * 8 + lane % 4 * 2 + i % 2].address;
        memcpy(shared_at(now->block, row, 16) + lane / 4 * 2, &half, 2);
    }
}

static inline void load_matrices_turned(unsigned from, unsigned (&matrix)[4]) {
    const struct lane *lanes = show_rows(from);
    const int lane = now->number % 32;
    for (int i = 0; i < 8; i++) {
        unsigned short half;
        const unsigned row = lanes[i / 2 * 8 + lane % 4 * 2 + i % 2].address;
        memcpy(&half, shared_at(now->block, row, 16) + lane / 4 * 2, 2);
        matrix[i / 2] = i % 2 ? matrix[i / 2] | (unsigned)half << 16 : half;
    }
}

#if !EMULATE_TF32
static inline unsigned halfs_of(float first, float second) {
    return element_of(first) | (unsigned)element_of(second) << 16;
}
#endif

static inline uint4 load_shared16(unsigned from) {
    uint4 value;
    memcpy(&value, shared_at(now->block, from, 16), 16);
    return value;
}

/* ---- launches ---- */

static void begin_thread(struct thread *thread, struct block *block, unsigned number, char *stack) {
    thread->block = block;
    thread->number = number;
    thread->done = thread->awaited = false;
    thread->n_copies = thread->groups = 0;
    thread->n_products = thread->product_groups = 0;
    thread->fenced = false;
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = stack;
    thread->context.uc_stack.ss_size = STACK;
    makecontext(&thread->context, thread_main, 0);
}

static void begin_block(struct block *block, unsigned size) {
    block->meeting = meeting{(int)size, 0, 0};
    memset(block->groups, 0, sizeof block->groups);
    block->n_barriers = 0;
    for (unsigned w = 0; w < (size + 31) / 32; w++)
        block->warps[w].meeting = meeting{32, 0, 0};
    memset(block->shared, 0xff, block->shared_bytes);
}

/* Each lane once; returns how many are done. */
static int run_warp(struct thread *lanes, int n) {
    int done = 0;
    for (int i = 0; i < n; i++) {
        now = &lanes[i];
        threadIdx.x = now->number;
        blockIdx = now->block->index;
        if (!now->done)
            swapcontext(&scheduler, &now->context);
        done += now->done;
    }
    return done;
}

/* Warps run as far as they can, one before the other, so that only barriers keep them together. */
static void run_cluster(int n, int size) {
    const int warps = (size + 31) / 32, all = n / size * warps;
    for (unsigned round = 0;; round++) {
        const long before = moves;
        int done = 0;
        for (int i = 0; i < all; i++) {
            const int w = round % 2 ? all - 1 - i : i, first = w / warps * size + w % warps * 32;
            const int lanes = min(32, size - w % warps * 32);
            int ended;
            long then;
            do {
                then = moves;
                ended = run_warp(threads + first, lanes);
            } while (moves != then && ended < lanes);
            done += ended;
        }
        if (done == n)
            return;
        if (moves == before)
            wrong("waits for ever");
    }
}

static void run_grid(const unsigned *grid, unsigned size, unsigned cluster, unsigned shared_bytes) {
    const unsigned n = size * cluster;
    threads = (struct thread *)calloc(n, sizeof *threads);
    blocks = (struct block *)calloc(cluster, sizeof *blocks);
    char *stacks = (char *)malloc((size_t)n * STACK);
    blockDim = place3{size, 1, 1};
    gridDim = place3{grid[0], grid[1], grid[2]};
    for (unsigned b = 0; b < cluster; b++) {
        blocks[b].shared = (unsigned char *)malloc(shared_bytes + 1);
        blocks[b].shared_bytes = shared_bytes;
    }
    for (unsigned z = 0; z < grid[2]; z += cluster) {
        for (unsigned xy = 0; xy < grid[0] * grid[1]; xy++) {
            cluster_meeting = meeting{(int)n, 0, 0};
            for (unsigned b = 0; b < cluster; b++) {
                begin_block(&blocks[b], size);
                blocks[b].index = place3{xy % grid[0], xy / grid[0], z + b};
            }
            for (unsigned i = 0; i < n; i++)
                begin_thread(&threads[i], &blocks[i / size], i % size, stacks + (size_t)i * STACK);
            run_cluster((int)n, (int)size);
        }
    }
    for (unsigned b = 0; b < cluster; b++) {
        free(blocks[b].shared);
        for (int i = 0; i < MOST_BARRIERS; i++)
            free(blocks[b].barriers[i].copies);
    }
    free(threads);
    free(blocks);
    free(stacks);
}

/* The kernel's arguments, of their types. */
static const uint64_t *arguments;

template <class T> static T argument(const uint64_t *at, T *) {
    return (T)*at;
}

template <class... A> struct call {
    call(void (*kernel)(A...), A... a) {
        kernel(a...);
    }
};

template <class... A> static void call_kernel(void (*kernel)(A...)) {
    const uint64_t *at = arguments;
    call<A...>{kernel, argument(at++, (A *)nullptr)...};
}

#define LAUNCH(entry, cluster)                                                                        \
    extern "C" void launch_##entry(const uint64_t *args, const unsigned *grid, const unsigned *block, \
                                   unsigned shared_bytes) {                                           \
        arguments = args;                                                                             \
        kernel_body = [] { call_kernel(entry); };                                                     \
        run_grid(grid, block[0], cluster, shared_bytes);                                              \
    }
