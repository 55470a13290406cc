/* import.h - turns the logs of other programs into rows. Each row is one measurement with the options of its run.
 *
 * A reader knows the output of one program.  It is offered every line of a log and takes those that it knows, so a
 * log may hold the output of several programs.  Nothing is guessed.  A line that no reader knows is counted, and the
 * first such lines are kept to be shown.  An option that the log does not state stays empty.  If its default would
 * mislead, the option is set to "?", which no reader of cases accepts.  An example is the number of ranks of a run over
 * several nodes.
 *
 * Units: times in microseconds, bandwidths in GB/s of 1e9 bytes, whatever the log printed. */
#ifndef REPORTS_IMPORT_IMPORT_H
#define REPORTS_IMPORT_IMPORT_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The words of a row, each with the name of its column.  Those from KERNEL to MESSAGE have the names of simulate's
 * options. */
#define IMPORT_COLUMNS_ALL(X) \
    X(TOOL, "tool") \
    X(TEST, "test") \
    X(SET, "set") \
    X(KERNEL, "kernel") \
    X(NUM_RANKS, "num-ranks") \
    X(RANKS_PER_NODE, "ranks-per-node") \
    X(NUM_TOKENS, "num-tokens") \
    X(HIDDEN, "hidden") \
    X(NUM_TOPK, "num-topk") \
    X(NUM_EXPERTS, "num-experts") \
    X(NUM_TOPK_GROUPS, "num-topk-groups") \
    X(DTYPE, "dtype") \
    X(DISABLE_NVLINK, "disable-nvlink") \
    X(HOOK, "hook") \
    X(CACHED, "cached") \
    X(EXPAND, "expand") \
    X(MASKED_PLACES, "masked-places") \
    X(NUM_SMS, "num-sms") \
    X(NUM_BIAS, "num-bias") \
    X(EXPERT_ALIGNMENT, "expert-alignment") \
    X(NVL_CHUNK, "nvl-chunk") \
    X(RDMA_CHUNK, "rdma-chunk") \
    X(NVL_BUFFER, "nvl-buffer") \
    X(RDMA_BUFFER, "rdma-buffer") \
    X(COMBINE_NVL_CHUNK, "combine-nvl-chunk") \
    X(COMBINE_RDMA_CHUNK, "combine-rdma-chunk") \
    X(COMBINE_NVL_BUFFER, "combine-nvl-buffer") \
    X(COMBINE_RDMA_BUFFER, "combine-rdma-buffer") \
    X(BACKEND, "backend") \
    X(MESSAGES, "messages") \
    X(MESSAGE, "size") \
    X(SIZE, "size_bytes") \
    X(VALUE_TYPE, "value_type") \
    X(OPERATOR, "operator") \
    X(IN_PLACE, "in_place") \
    X(SCOPE, "scope") \
    X(DEVICE, "device") \
    X(QPS, "qps") \
    X(TX_DEPTH, "tx_depth") \
    X(MTU, "mtu") \
    X(CONNECTION, "connection") \
    X(LINK, "link") \
    X(MEMORY, "memory") \
    X(ITERATIONS, "iterations") \
    X(RUN_OPTIONS, "run_options") \
    X(PHASE, "phase") \
    X(LAYER, "layer") \
    X(PEER, "peer") \
    X(METRIC, "metric") \
    X(COUNTED, "counted") \
    X(TIMED, "timed")

/* The numbers of a row; NAN: the log does not have the number.  Bandwidths that count different bytes are kept apart.
 * LOGICAL: counted as in DeepEP's tests, with local traffic. */
#define IMPORT_NUMBERS_ALL(X) \
    X(US, "measured_us") \
    X(US_MIN, "time_us_min") \
    X(US_MAX, "time_us_max") \
    X(LOGICAL_RDMA_GBS, "logical_rdma_gbs") \
    X(LOGICAL_NVL_GBS, "logical_nvl_gbs") \
    X(NATIVE_GBS, "native_gbs") \
    X(NATIVE_BUS_GBS, "native_bus_gbs") \
    X(NATIVE_PEAK_GBS, "native_peak_gbs") \
    X(NATIVE_CYCLES, "native_cycles") \
    X(COUNTED_BYTES, "counted_bytes")

#define IMPORT_NAMED(name, text) IMPORT_##name,
enum import_column { IMPORT_COLUMNS_ALL(IMPORT_NAMED) IMPORT_COLUMNS };
enum import_number { IMPORT_NUMBERS_ALL(IMPORT_NAMED) IMPORT_NUMBERS };
enum { IMPORT_OPTION_FIRST = IMPORT_KERNEL, IMPORT_OPTION_LAST = IMPORT_MESSAGE };

enum { IMPORT_NO_RANK = -1 };

struct import_row {
    const char *source; /* the log's name; the log owns it */
    uint32_t line;
    int32_t rank;               /* IMPORT_NO_RANK: the log does not tell ranks apart */
    uint32_t ranks, lines;      /* how many ranks and lines import_rows_merge() joined */
    const char *may;            /* eptwin's kernel that --kernel may say it is, of which no cell tells; NULL: none */
    char *cell[IMPORT_COLUMNS]; /* NULL: not stated */
    double number[IMPORT_NUMBERS];
};

const char *import_column_name(enum import_column column);
const char *import_number_name(enum import_number number);

/* ---- a log while it is read ---- */

struct import_skip {
    char *why;
    uint32_t count, line;
};
struct import_unknown {
    uint32_t line;
    char *text;
};
enum { IMPORT_UNKNOWN_SHOWN = 5, IMPORT_UNKNOWN_TEXT = 100 };

struct import_log {
    char *source;
    GStringChunk *texts; /* texts of skips, of unknown lines and of the readers' states */
    uint32_t line;       /* the line that is being read, from 1 */
    GPtrArray *rows;     /* struct import_row */
    GArray *skips;       /* struct import_skip: measurements that were left out, by reason */
    GPtrArray *notes;    /* char *: notes for users of the rows */
    GArray *unknown;     /* struct import_unknown: the first lines that no reader knew */
    uint32_t unknown_count, line_count;
    const char *counted; /* what line_count counts; NULL: lines */
};

/* A copy of the text's first `length` bytes (-1: of all), which lives as long as the log. */
char *import_log_keep(struct import_log *log, const char *text, gssize length);

/* Reads path ("-": standard input).  NULL and *error if it cannot be read, is incomplete JSON, or holds no measurement
 * that a reader knows. */
struct import_log *import_log_read(const char *path, GError **error);
/* Reads text in memory (text[size_bytes] is NUL; the text is changed).  A log without rows is no error. */
struct import_log *import_log_parse(const char *source, char *text, size_t size_bytes, GError **error);
void import_log_free(struct import_log *log);
typedef struct import_log import_log;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(import_log, import_log_free)

/* Merges the rows of all ranks and repetitions of a case's phase into one: the median over ranks of each rank's median,
 * the smallest minimum, the largest maximum.  Rows of a matrix (with a peer) and sums over ranks stay as they are.  The
 * result owns its rows. */
GPtrArray *import_rows_merge(const GPtrArray *rows);
/* Puts a row into the group with its key, or into a new group at the end of groups if group_of does not have the
 * key.  Takes the key.  group_of frees its keys; groups only borrow rows. */
void import_group_add(GHashTable *group_of, GPtrArray *groups, char *key, struct import_row *row);

/* ---- for readers ---- */

/* Makes a log without rows, for files that are not read as text. */
struct import_log *import_log_new(const char *source);

/* Adds a row to the log, at the line that is being read. */
struct import_row *import_row_add(struct import_log *log, const char *tool, const char *test, const char *phase);
struct import_row *import_row_copy(const struct import_row *row);
void import_row_free(struct import_row *row);
/* Sets a word; NULL and "" leave it unstated. */
void import_row_word(struct import_row *row, enum import_column column, const char *text);
/* Makes it a row of eptwin's kernel, which is predicted.  Options that the log does not state and whose default would
 * mislead become "?". */
void import_row_become(struct import_row *row, const char *kernel);
void import_row_count(struct import_row *row, enum import_column column, uint64_t count);
/* Sets a count; 0 leaves it unstated. */
void import_row_count_unless_0(struct import_row *row, enum import_column column, uint64_t count);
/* Sets a number if it is positive; anything else means "not measured", and the number stays NAN. */
void import_row_number(struct import_row *row, enum import_number number, double value);

/* Sets the size in bytes, which is also the number of bytes that bandwidths count. */
void import_row_size(struct import_row *row, double size_bytes);

/* Counts a measurement that is left out, with the reason.  Returns true, as the line is known. */
bool import_log_skip(struct import_log *log, const char *why);
/* Removes a row and counts it as left out.  Returns true. */
bool import_row_drop(struct import_log *log, struct import_row *row, const char *why);
/* Adds a note, unless the log has it. */
void import_log_note(struct import_log *log, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Cleans a line in place.  Removes ESC sequences, asterisks of emphasis, the marks of mpirun, srun and containers, and
 * what a carriage return overwrites.  A NUL becomes '?', and a character of double width its plain form. */
char *import_line_clean(char *line, size_t size_bytes);

/* Matches the beginning of text against format and returns the text after it, or NULL.  In format %u is a whole
 * number (uint32_t *), %f a decimal number without sign (double *), and a blank any number of blanks or none.  Every
 * other character stands for itself. */
const char *import_scan(const char *text, const char *format, ...);
/* Splits a line at runs of at least blanks_least blanks.  A tab counts as such a run.  Free with g_strfreev(). */
char **import_words(const char *line, uint32_t blanks_least);
/* Whether all of text is a decimal number, which *value gets. */
bool import_number_read(const char *text, double *value);

/* Whether a line begins with one of the known texts, or is one of them.  The texts are divided by '|': "Ca|Switch". */
bool import_begins(const char *line, const char *known);
bool import_listed(const char *line, const char *known);
/* A table that maps parts of a text to words.  An entry without a part ends it. */
struct import_part {
    const char *part, *word;
};
const char *import_part_find(const struct import_part *known, const char *text);

/* ---- logs that are tables: a line of titles, then lines with a value in each column ---- */

enum { IMPORT_FIELDS_MAX = 40 }; /* words of a line, columns of a table */

struct import_titles {
    uint32_t count; /* 0: there is no table */
    char *title[IMPORT_FIELDS_MAX];
};
/* Replaces the titles by these words, which the log keeps. */
void import_titles_set(struct import_titles *titles, struct import_log *log, char **words);
/* What the values of a column mean.  An entry fits a column if its title begins the column's title and its unit is in
 * the column's title.  An entry without unit fits if its title is the column's whole title.  The first entry of a table
 * that fits counts.  An entry without title ends the table. */
struct import_meaning {
    const char *title, *unit;
    enum import_number number;
    double scale; /* factor from the column's unit to the number's unit */
};
const struct import_meaning *import_meaning_find(const struct import_meaning *known, const char *title);

/* ---- logs in JSON ---- */

/* A member that is a number, or a string that holds one; else NAN. */
double import_json_number(const json_t *object, const char *key);
/* Sets a word from a member that is a string or a whole number of at least 0; anything else leaves it unstated. */
void import_json_word(struct import_row *row, enum import_column column, const json_t *object, const char *key);

struct import_reader {
    const char *name;
    size_t state_bytes;                                                  /* bytes of the state, zeroed at first */
    bool (*line)(void *state, struct import_log *log, const char *line); /* returns whether it knows the line */
    void (*end)(void *state, struct import_log *log);         /* called at the end; frees what state holds; or NULL */
    bool (*json)(struct import_log *log, const json_t *root); /* returns whether it knows the document; or NULL */
};

extern const struct import_reader import_deepep_v1, import_deepep_v2, import_deepxtrace, import_nccl_tests,
    import_perftest, import_nvshmem, import_osu, import_nvbandwidth, import_mori, import_collectivex;

/* The number of ranks n for which busbw = algbw (n - 1) / n; 0 if no n fits. */
uint32_t import_bus_ranks(double algorithm_gbs, double bus_gbs);

#endif
