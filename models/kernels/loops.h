/* loops.h - sheets: what the loops of a kernel library do, a line for each site (sites.h).
 *
 * A sheet is a text file.  '#' begins a comment, and an empty line means nothing.  Before the first site stand the
 * sources:
 *
 *     library NAME             as `eptwin kernel list` shows it
 *     source  TEXT             where its code is published
 *     commit  TEXT             the version of that code
 *     compiler TEXT            the compiler that made the loops that were clocked or read in machine code
 *
 * A site's line is
 *
 *     SITE (size, size, ...)  word value, word value, ...  @ file:line
 *
 * or, where the loop is a program (below), with the words that describe its data:
 *
 *     SITE (size, size, ...)  { operation, operation, ... }  word value, ...  @ file:line
 *
 * A line that begins with a blank continues the line before.  The kernel gives the sizes, in this order (struct
 * site_given).  `eptwin kernel words` explains words and operations.  A value is a number, a size, or `rows`, the
 * rows of the operation (only after `times` and in programs).  Programs also have `bytes` (read of a row), `made`
 * (written of it) and `warps`.  Values may be combined by + - * / % > ( ), min(a, b), max(a, b), and ceil(a, b), which
 * is a / b rounded up.  Numbers are whole.  A difference below 0 is 0, and a division by 0 gives 0.  A word without a
 * value has 1.
 *
 * The shipped sheets are part of the program, so they are always there.  A test checks that they can be read. */
#ifndef MODELS_KERNELS_LOOPS_H
#define MODELS_KERNELS_LOOPS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include "models/kernels/sites.h"

/* Which engine moves the bytes. */
enum loop_engine {
    LOOP_LDST, /* a lane issues in_flight loads of width_bytes, waits for them, stores the values, and starts again,
                * so a row takes bytes / (32 lanes x width x in_flight) waits */
    LOOP_BULK, /* the bulk copy engine moves a row from memory into shared memory and out again; the warp waits for
                * both */
    LOOP_COPY, /* the GPU's copy engine moves bytes at the host's request: one store() of any size, and no warps */
    /* No engine: the host requests these. */
    LOOP_AWAIT,      /* a stream finds that the word that it awaits is already written */
    LOOP_LAUNCH,     /* a stream begins a kernel */
    LOOP_WAIT,       /* the host waits until the stream has come here, and only then asks for later operations */
    LOOP_ARITHMETIC, /* no engine: the SM computes for lasts_ps, if nothing else runs on it */
};

/* Where an entry of an index array is when it is read again. */
enum loop_again {
    LOOP_NOT_AGAIN,
    LOOP_NEAR,    /* the SM has read its line before, and much else since */
    LOOP_AT_HAND, /* the SM has read its line just now */
};

/* How a scan reads words of the host's memory. */
enum loop_host { LOOP_HOST_NONE, LOOP_HOST_READ, LOOP_HOST_POLLED };

/* What an addition to a word of the rank is. */
enum loop_adds {
    LOOP_ADDS_GPU,    /* an atomic of the whole GPU, which releases earlier stores */
    LOOP_ADDS_SHARED, /* the word is in the SM's shared memory */
    LOOP_ADDS_ALONG,  /* it is made together with the warp's addition before it */
    LOOP_ADDS_GRID,   /* it opens the barrier of the grid, to which all blocks have come */
};

/* ---- programs: what a warp does with a row, or a team of warps with all rows, one operation after another ---- */

enum loop_code {
    LOOP_LOAD,      /* asks for n bytes, `by` bytes of all lanes at a time; nobody waits yet */
    LOOP_USE,       /* waits for everything that LOAD has asked for */
    LOOP_STORE,     /* stores n bytes; each access waits for the value of the oldest load on its way, if there is one */
    LOOP_ALU,       /* n instructions that do not wait for each other */
    LOOP_CHAIN,     /* n instructions, each of which waits for the one before */
    LOOP_BULK_IN,   /* asks the bulk copy engine to bring n bytes into shared memory */
    LOOP_BULK_WAIT, /* waits for the oldest BULK_IN of the team for which this warp has not waited yet */
    LOOP_BULK_LEFT, /* waits until every other warp of the team has finished with all but the last n BULK_IN requests */
    LOOP_BULK_OUT,  /* asks the bulk copy engine to store n bytes from shared memory */
    LOOP_BULK_READ, /* waits until the engine has at most n BULK_OUT stores left for which it must still read shared
                     * memory */
    LOOP_FENCE,     /* orders earlier stores of the SM's warps to shared memory before what the engine reads of them */
    LOOP_REPEAT,    /* does the operations up to its END n times */
    LOOP_FIRST,     /* only the first n warps of the team do the operations up to its END */
    LOOP_OTHERS,    /* only the team's other warps do the operations up to its END */
    LOOP_END,
};
/* Where bytes come from or go to.  SOURCE and TARGET are those of the kernel's operation; the words about its data say
 * more about them. */
enum loop_place { LOOP_SOURCE, LOOP_TARGET, LOOP_SHARED, LOOP_L2 };

struct loop_op {
    uint8_t code, place;
    uint16_t by;
    uint32_t n; /* for FIRST, OTHERS and REPEAT, `by` says how many operations later their END is; for an END, it says
                 * how many operations earlier its block begins */
};
enum { LOOP_OPS = 32, LOOP_NESTED = 3 };

/* The rows for which a program runs. */
struct loop_row {
    uint64_t bytes, made; /* bytes read of a row, or of all rows of a sum; bytes written for it, in all places
                           * together */
    uint32_t rows, warps; /* rows of the operation; warps of the team */
};

/* A site's loop for the sizes of a launch.  The table of words in loops.c explains the fields.  In addition to
 * moving its bytes, a row waits for memory `steps` times, one wait after another. */
struct loop {
    uint8_t engine, again, adds; /* enum loop_engine, enum loop_again, enum loop_adds */
    uint8_t width_bytes;         /* 0: 16 */
    uint8_t in_flight;           /* 0: 1 */
    uint8_t steps, chase, lines, flagged;
    uint8_t source_line, target_line;
    bool by_host; /* of copies, words, puts and calls */
    uint16_t shared_bytes, stride;
    uint16_t stretch_cycles, stretch_row_cycles;
    uint16_t number; /* enum site; it tells the arrays of different sites apart */
    uint32_t sum_cycles;
    bool lined, sought, one_by_one, packed, packed_source, spread, staged, to_shared, alone, fenced, fresh, unseen,
        posted, apart, weighted, peer;
    uint8_t host;                                                  /* of scans: enum loop_host */
    bool releases, host_stored, to_host, polled, library, message; /* of signals and puts */
    bool whole, paired;                                            /* of kernels */
    bool program; /* true: only the program and the description of its data count.  false: `engine` and the fields after
                   * it say what the loop does */
    bool times;   /* for a scan: loops_times() gives the number of loads; false: a load for each row */
    bool team;    /* for a program: all warps of the operation move each row together; false: each warp moves its own
                   * row */
    uint64_t lasts_ps;
    uint64_t footprint_bytes; /* 0: so little that it does not matter */
    uint64_t digest;          /* of the sheets, the site and the sizes; equal digests mean equal programs */
};

/* The bytes, flags included, that the loop reads and stores for size_bytes of data. */
static inline uint64_t loop_wire_bytes(const struct loop *loop, uint64_t size_bytes)
{
    enum { FLAG_BYTES = 8 };
    return loop->flagged ? size_bytes + (size_bytes + loop->flagged - 1) / loop->flagged * FLAG_BYTES : size_bytes;
}

struct loops;

/* The loops of the sheets that ship with the program. */
const struct loops *loops_shipped(void);
/* Returns the shipped loops, with the lines that a sheet has in place of theirs.  Each line must have the form of the
 * shipped line: a program, with or without `one-by-one`; one of `copy-engine`, `await`, `launch`, `host-waits`,
 * `arithmetic`, `from-shared` and `to-shared`; or other words.
 * path is where text comes from, for messages.  Returns NULL and sets *error, "path:line: ...", if the text is no such
 * sheet. loops_load() reads the text from the file. */
struct loops *loops_parse(const char *path, const char *text, size_t size_bytes, GError **error);
struct loops *loops_load(const char *path, GError **error);
void loops_free(struct loops *loops);

/* The site's loop for these sizes (NULL: all 0). */
void loops_make(const struct loops *loops, enum site site, const uint64_t size[SITE_SIZES], struct loop *loop);
/* Writes the site's program for a row, and returns the number of its operations, at most LOOP_OPS. */
uint32_t loops_program(const struct loops *loops, enum site site, const uint64_t size[SITE_SIZES],
                       const struct loop_row *row, struct loop_op op[LOOP_OPS]);
/* How many loads a lane makes in a scan of `rows` rows.  It is the number that the site's line gives with `times`.  If
 * the line gives none, it is `rows`. */
uint32_t loops_times(const struct loops *loops, enum site site, const uint64_t size[SITE_SIZES], uint32_t rows);

/* For `eptwin kernel`: the name of a site; the site of a name (SITE_NONE: there is none); the sheets as text; the
 * words. */
const char *loops_site_name(enum site site);
enum site loops_site_find(const char *name);
uint32_t loops_sheet_count(void);
const char *loops_sheet_text(uint32_t sheet, size_t *size_bytes);
const char *loops_word_name(uint32_t word, const char **help); /* NULL after the last */

#endif
