/* profile.h - the kernels and copies that a profiler recorded on a GPU, by stream.
 *
 * They are read from the JSON of PyTorch's profiler (Kineto; plain, gzip or zstd), in bounded memory except 48 bytes
 * for each kernel and 16 for each launch.  If eptwin is built with libsqlite3, they are also read from the SQLite
 * export of Nsight Systems.  The names of kernels tell which of them communicate (profile_phase.c).  Knows no cluster
 * and no prediction.
 *
 * Times are nanoseconds of the recording host's clock.  Times of several hosts can be compared only as far as their
 * clocks agree. */
#ifndef REPORTS_IMPORT_PROFILE_H
#define REPORTS_IMPORT_PROFILE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "reports/import/import.h"

enum profile_kind { PROFILE_KERNEL, PROFILE_COPY };

enum { PROFILE_NO_LAUNCH = -1, PROFILE_KERNELS_MAX = 1 << 26 };

struct profile_kernel {
    int64_t begin_ns, end_ns;
    int64_t launch_ns; /* when the host began to launch it; PROFILE_NO_LAUNCH: not recorded */
    uint32_t name;     /* index in profile->names */
    uint32_t stream, blocks, correlation;
    uint16_t device;
    uint8_t kind;
};

struct profile {
    char *source;        /* the file */
    const char *tool;    /* "kineto", "nsys" */
    int32_t rank;        /* as recorded, else -1 */
    uint32_t world_size; /* 0: not recorded */
    char *gpu;           /* "NVIDIA H800", or NULL */
    GPtrArray *names;    /* char *: each once */
    GArray *kernels;     /* struct profile_kernel of one device, sorted by begin */
    uint64_t events;     /* how many events the file has */
};

/* Whether a file begins like a profile: it is a SQLite database, or JSON that begins with members of a trace.  Reads
 * the first bytes, unpacked.  False if the file cannot be read. */
bool profile_begins(const char *path);
/* The profiles in a file (struct profile), one for each device that ran kernels.  NULL and *error (file, offset,
 * expected, found) if it is damaged or holds no kernel. */
GPtrArray *profile_read(const char *path, GError **error);
void profile_free(struct profile *profile);

/* ---- for readers of files ---- */

struct profile_builder;
struct profile_builder *profile_builder_new(const char *source, const char *tool);
uint32_t profile_builder_name(struct profile_builder *builder, const char *name);
/* Adds a kernel.  False if there are too many. */
bool profile_builder_kernel(struct profile_builder *builder, const struct profile_kernel *kernel);
/* Notes when the host launched the kernels of this correlation.  False if there are too many launches. */
bool profile_builder_launch(struct profile_builder *builder, uint32_t correlation, int64_t begin_ns);
/* Ends the builder, and returns a profile for each device.  Kernels are sorted, and have the times of their
 * launches. */
GPtrArray *profile_builder_end(struct profile_builder *builder);
void profile_builder_free(struct profile_builder *builder);
/* The profile in which a reader sets rank, world_size, GPU and number of events. */
struct profile *profile_builder_facts(struct profile_builder *builder);

GPtrArray *kineto_read(const char *path, GError **error);
bool nsys_begins(const uint8_t *bytes, size_t size);
GPtrArray *nsys_read(const char *path, GError **error);

/* ---- kernels that communicate ---- */

struct profile_phase {
    const char *library;           /* "DeepEP", "NCCL", ... ; NULL: the kernel does not communicate */
    const char *kernel;            /* eptwin's kernel ("ll", "normal", "v2"); NULL: the name does not tell it */
    const char *may;               /* then the kernel that it may be, by its release, say; NULL: none of eptwin's */
    const char *phase;             /* "dispatch", "combine", "notify", ... */
    uint32_t ranks, nodes, hidden; /* 0: the name does not say it */
    bool cached;
};

/* What a kernel's name says about its library, its phase and its case. */
struct profile_phase profile_phase_of(const char *name);
/* Whether this is, or may be, eptwin's kernel.  kernel NULL: no. */
bool profile_phase_is(const struct profile_phase *is, const char *kernel);

/* One call of a communication kernel. */
struct profile_call {
    uint32_t index; /* in profile->kernels */
    const char *phase;
    uint32_t layer; /* index of the call among those of its phase */
    struct profile_phase is;
};

/* What all calls of a kernel together tell about their case. */
struct profile_case {
    const char *kernel;                 /* eptwin's kernel; NULL: eptwin does not have it */
    uint32_t ranks, nodes, hidden, sms; /* 0: not said */
    uint32_t calls;                     /* of the kernel */
    bool hook, cached;                  /* hook: kernels are launched twice; cached: every dispatch has a handle */
};

/* The case of all calls that are, or may be, eptwin's kernel.  kernel NULL: of those told by name, that with the most
 * calls. */
struct profile_case profile_case_of(const struct profile *profile, const GArray *calls, const char *kernel);

/* The calls of a profile in order (struct profile_call).  Three facts follow from their order.  A cached_notify belongs
 * to the dispatch or combine after it.  A dispatch after a cached notify has a handle.  Low-latency kernels that are
 * launched twice for a hook are the phases dispatch_send and dispatch_recv. */
GArray *profile_calls(const struct profile *profile);

/* A log of the profiles in a file.  NULL and *error if the file cannot be read, or if none of its kernels
 * communicates. */
struct import_log *profile_log_read(const char *path, GError **error);

#endif
