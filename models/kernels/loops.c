/* loops.c - reads sheets of loops, and computes a site's loop for the sizes of a launch; see loops.h. */
#include "models/kernels/loops.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "reports/whole_file.h"
#include "sim/error.h"

enum {
    ACCESS_BYTES = 512, /* 32 lanes of 16 bytes */
    CODES = 160,
    CLAUSES = 16,
    NAME_BYTES = 32,
    NESTED_MAX = 8,
    STACK = 4 * NESTED_MAX + 8,
    FILE_BYTES_MAX = 1 << 20
};

/* The code of an expression, for a stack machine. */
enum operation {
    NUMBER,
    SIZE,
    ROWS,
    BYTES,
    MADE,
    WARPS,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    REST,
    MORE,
    LEAST,
    MOST,
    CEILING
};
struct code {
    uint8_t operation;
    uint64_t value;
};

struct clause {
    uint8_t word, begin, end; /* the word; where its expression's code begins and ends */
};

/* An operation of a program.  Two expressions in code give how much it moves (n), and how much at a time (by). */
struct step {
    uint8_t code, place, end; /* enum loop_code, enum loop_place; for a block: the step of its END */
    struct clause n, by;
};

struct line {
    uint32_t number; /* the number of the line in its file; 0: the site has no line */
    uint8_t clause_count, code_count, step_count;
    bool team, bulk;
    struct clause clause[CLAUSES];
    struct step step[LOOP_OPS];
    struct code code[CODES];
};

struct loops {
    uint32_t number; /* tells sheets apart; 0: the shipped ones */
    struct line line[SITES];
};

static const char *const site_names[SITES] = {
#define SITE(name) [SITE_##name] = #name,
    SITES_ALL(SITE)
#undef SITE
};

/* ---- words ---- */

enum kind { FLAG, U8, U16, U32, U64, TIMES };

#define FIELD(name) .offset = offsetof(struct loop, name)
static const struct word {
    const char *name;
    uint16_t offset;
    uint8_t kind;
    uint8_t engine; /* 1 + the loop's engine; 0: the word leaves the engine as it is */
    uint8_t fixed;  /* what the field gets if the expression is not 0; 0: it gets the expression's value */
    const char *help;
} loop_words[] = {
    { "load", FIELD(in_flight), U8, 0, 0, "loads that a lane has in flight and awaits together" },
    { "of", FIELD(width_bytes), U8, 0, 0, "bytes of a lane's access, if not 16" },
    { "bulk", FIELD(in_flight), U8, LOOP_BULK + 1, 0,
      "the bulk copy engine loads it; sums: in pieces of 512 bytes, the next while one is summed, and stores them" },
    { "copy-engine", FIELD(engine), U8, LOOP_COPY + 1, LOOP_COPY, "the GPU's copy engine moves it instead of a warp" },
    { "await", FIELD(engine), U8, LOOP_AWAIT + 1, LOOP_AWAIT, "calls: a stream finds its word already written" },
    { "launch", FIELD(engine), U8, LOOP_LAUNCH + 1, LOOP_LAUNCH, "calls: a stream begins a kernel" },
    { "host-waits", FIELD(engine), U8, LOOP_WAIT + 1, LOOP_WAIT, "calls: the host waits for the stream" },
    { "arithmetic", FIELD(lasts_ps), U64, LOOP_ARITHMETIC + 1, 0,
      "calls: picoseconds for which the SM computes, if nothing else runs on it" },
    { "by-host", FIELD(by_host), FLAG, 0, 0, "calls, copies, words, puts: a host thread requests or posts it" },
    { "wait", FIELD(steps), U8, 0, 0, "number of waits for memory, in sequence, before a row's bytes" },
    { "times", 0, TIMES, 0, 0, "scans: loads of a lane in sequence, if not `rows`" },
    { "chase", FIELD(chase), U8, 0, 0,
      "scans: each load gives the address of the next; SM cycles for each 128 B that arrive meanwhile" },
    { "apart", FIELD(apart), FLAG, 0, 0,
      "scans, signals: only the group's first warp does it, and the others continue" },
    { "lines", FIELD(lines), U8, 0, 0, "128 B lines that a load of the 32 lanes touches, if not 1" },
    { "peer", FIELD(peer), FLAG, 0, 0, "scans, gets: the data are in the memory of a peer" },
    { "host", FIELD(host), U8, 0, LOOP_HOST_READ,
      "scans: words in host memory, where reads of one 64-byte line are serialized" },
    { "polls", FIELD(host), U8, 0, LOOP_HOST_POLLED, "scans: the same, repeated until a step does something else" },
    { "stride", FIELD(stride), U16, 0, 0,
      "scans: bytes from the data of one wait to those of the next; 0: they are scattered" },
    { "near", FIELD(again), U8, 0, LOOP_NEAR, "the SM has read the line before, but much else since" },
    { "at-hand", FIELD(again), U8, 0, LOOP_AT_HAND, "the SM has just read the line" },
    { "fresh", FIELD(fresh), FLAG, 0, 0, "this GPU has just written the data, or a peer has written them here" },
    { "unseen", FIELD(unseen), FLAG, 0, 0,
      "fresh, and written by other SMs or a peer: this SM has not used their pages" },
    { "footprint", FIELD(footprint_bytes), U64, 0, 0, "bytes that the whole kernel reads in this way; 0: few" },
    { "shared", FIELD(shared_bytes), U16, 0, 0,
      "bulk: bytes of shared memory before its buffers, rounded up to 16; 0: they start at a line, unless spread" },
    { "spread", FIELD(spread), FLAG, 0, 0, "bulk: the offsets of its buffers from a line are evenly distributed" },
    { "source-line", FIELD(source_line), U8, 0, 0, "bulk: offset of a source row from a 128-byte line" },
    { "target-line", FIELD(target_line), U8, 0, 0, "from-shared: offset of a target row from a 128-byte line" },
    { "packed", FIELD(packed), FLAG, 0, 0, "bulk: rows of the target are contiguous, not aligned to lines" },
    { "packed-source", FIELD(packed_source), FLAG, 0, 0, "bulk: so are the source's rows" },
    { "lined", FIELD(lined), FLAG, 0, 0, "loads and stores: rows start at 128-byte lines" },
    { "from-shared", FIELD(staged), FLAG, LOOP_BULK + 1, 0, "bulk: the row is stored from shared memory" },
    { "to-shared", FIELD(to_shared), FLAG, LOOP_BULK + 1, 0,
      "bulk: the row is loaded into shared memory, after earlier stores from there are written, and stays" },
    { "alone", FIELD(alone), FLAG, 0, 0, "to-shared, from-shared: a step does only this, and is not the last" },
    { "sought", FIELD(sought), FLAG, 0, 0, "each warp searches its own rows, and starts when it has found one" },
    { "flagged", FIELD(flagged), U8, 0, 0, "loads, stores, puts: bytes of data per 8 B of flags" },
    { "posted", FIELD(posted), FLAG, 0, 0, "stores: only a release in a later step waits for them" },
    { "sum", FIELD(sum_cycles), U32, 0, 0, "sums: cycles of a sum, beside its waits and stretches" },
    { "sum-stretch", FIELD(stretch_cycles), U16, 0, 0, "sums: cycles of 512 bytes of the sum, beside waits" },
    { "sum-row", FIELD(stretch_row_cycles), U16, 0, 0,
      "sums: those of each row of these, with looks for rows; none: each row is awaited before the next is asked for" },
    { "fenced", FIELD(fenced), FLAG, 0, 0, "sums: the bulk engine stores each stretch, after a fence of the SM" },
    { "weighted", FIELD(weighted), FLAG, 0, 0, "sums: each row is multiplied by a weight, which takes a CPU longer" },
    { "releases", FIELD(releases), FLAG, 0, 0,
      "signals: orders stores of the SM's other groups, even if this group has stored nothing" },
    { "host-stored", FIELD(host_stored), FLAG, 0, 0, "signals: orders stores to the host's memory as well" },
    { "to-host", FIELD(to_host), FLAG, 0, 0, "signals to the rank itself: a posting host thread waits for it" },
    { "polled", FIELD(polled), FLAG, 0, 0,
      "signals: the peer polls the data themselves, so no signal is sent and no store is released" },
    { "in-shared", FIELD(adds), U8, 0, LOOP_ADDS_SHARED, "additions: the word is in the SM's shared memory" },
    { "along", FIELD(adds), U8, 0, LOOP_ADDS_ALONG, "additions: made together with the warp's previous addition" },
    { "grid", FIELD(adds), U8, 0, LOOP_ADDS_GRID,
      "additions: opens the grid's barrier, after all work and signals of its blocks" },
    { "whole", FIELD(whole), FLAG, 0, 0,
      "kernels: the sheet has all work of the warps, from the first instruction on" },
    { "paired", FIELD(paired), FLAG, 0, 0, "kernels: two thread blocks form a cluster and run on a pair of SMs" },
    { "library", FIELD(library), FLAG, 0, 0, "puts and signals: the communication library's own code posts it" },
    { "message", FIELD(message), FLAG, 0, 0, "puts: the peer's library has posted a receive, which some NICs fetch" },
    { "one-by-one", FIELD(one_by_one), FLAG, 0, 0,
      "scans, and rows that one warp moves: each starts when the previous one is done; others may come between" },
};
#undef FIELD

/* How an operation's values are written: none, a number, bytes with `by` and a place, or a number with a block in
 * braces. */
enum form { ALONE, NUMBERED, MOVED, BLOCK };
static const struct {
    const char *name;
    uint8_t form; /* enum form */
    uint8_t place;
    const char *help;
} loop_codes[LOOP_END] = {
    [LOOP_LOAD] = { "load", MOVED, LOOP_SOURCE, "{ }: requests bytes, 512 at a time, or as many as `by` says" },
    [LOOP_USE] = { "use", ALONE, 0, "{ }: waits for all requested bytes" },
    [LOOP_STORE] = { "store", MOVED, LOOP_TARGET, "{ }: stores bytes, in each access those of the oldest load" },
    [LOOP_ALU] = { "alu", NUMBERED, 0, "{ }: independent instructions" },
    [LOOP_CHAIN] = { "chain", NUMBERED, 0, "{ }: dependent instructions" },
    [LOOP_BULK_IN] = { "bulk-in", MOVED, LOOP_SOURCE,
                       "{ }: requests bytes from the bulk copy engine to shared memory" },
    [LOOP_BULK_WAIT] = { "bulk-wait", ALONE, 0, "{ }: waits for the oldest of these requests" },
    [LOOP_BULK_LEFT] = { "bulk-left", NUMBERED, 0,
                         "{ }: waits until the team's other warps need at most this many of them" },
    [LOOP_BULK_OUT] = { "bulk-out", MOVED, LOOP_TARGET, "{ }: requests the engine to store bytes" },
    [LOOP_BULK_READ] = { "bulk-read", NUMBERED, 0,
                         "{ }: waits until the engine still reads at most this many of these" },
    [LOOP_FENCE] = { "fence", ALONE, 0, "{ }: orders stores to shared memory before reads of the engine" },
    [LOOP_REPEAT] = { "repeat", BLOCK, 0, "{ }: repeats the following { } so many times" },
    [LOOP_FIRST] = { "first", BLOCK, 0, "{ }: only this many warps of the team do the following { }" },
    [LOOP_OTHERS] = { "others", BLOCK, 0, "{ }: all but this many warps of the team do the following { }" },
};
static const char *const loop_places[] = {
    [LOOP_SOURCE] = "source", [LOOP_TARGET] = "target", [LOOP_SHARED] = "shared", [LOOP_L2] = "l2"
};

const char *loops_word_name(uint32_t word, const char **help)
{
    if (word >= G_N_ELEMENTS(loop_words) + LOOP_END) return NULL;
    if (word < G_N_ELEMENTS(loop_words)) {
        *help = loop_words[word].help;
        return loop_words[word].name;
    }
    *help = loop_codes[word - G_N_ELEMENTS(loop_words)].help;
    return loop_codes[word - G_N_ELEMENTS(loop_words)].name;
}

/* ---- values ---- */

static uint64_t sum_of(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
static uint64_t product_of(uint64_t a, uint64_t b) { return a && b > UINT64_MAX / a ? UINT64_MAX : a * b; }

static uint64_t applied(enum operation operation, uint64_t a, uint64_t b)
{
    switch (operation) {
    case ADD: return sum_of(a, b);
    case SUBTRACT: return a > b ? a - b : 0;
    case MULTIPLY: return product_of(a, b);
    case DIVIDE: return b ? a / b : 0;
    case REST: return b ? a % b : 0;
    case MORE: return a > b;
    case LEAST: return MIN(a, b);
    case MOST: return MAX(a, b);
    case CEILING: return b ? a / b + (a % b > 0) : 0;
    default: assert(!"an operator of two values"); return 0;
    }
}

static uint64_t value_of(const struct line *line, const struct clause *clause, const uint64_t size[SITE_SIZES],
                         const struct loop_row *row)
{
    uint64_t stack[STACK];
    uint32_t depth = 0;
    for (uint32_t i = clause->begin; i < clause->end; i++) {
        const struct code *code = &line->code[i];
        assert(depth < STACK);
        if (code->operation == NUMBER) stack[depth++] = code->value;
        else if (code->operation == SIZE) stack[depth++] = size ? size[code->value] : 0;
        else if (code->operation == ROWS) stack[depth++] = row->rows;
        else if (code->operation == BYTES) stack[depth++] = row->bytes;
        else if (code->operation == MADE) stack[depth++] = row->made;
        else if (code->operation == WARPS) stack[depth++] = row->warps;
        else {
            depth--;
            stack[depth - 1] = applied((enum operation)code->operation, stack[depth - 1], stack[depth]);
        }
    }
    return depth ? stack[0] : 1;
}

static uint64_t digest_of(const struct loops *loops, enum site site, const uint64_t size[SITE_SIZES])
{
    uint64_t digest = (uint64_t)loops->number << 32 | site;
    for (uint32_t i = 0; size && i < SITE_SIZES; i++) {
        digest = (digest ^ size[i]) * UINT64_C(0x9e3779b97f4a7c15);
        digest ^= digest >> 32;
    }
    return digest;
}

void loops_make(const struct loops *loops, enum site site, const uint64_t size[SITE_SIZES], struct loop *loop)
{
    const struct line *line = &loops->line[site];
    *loop = (struct loop){
        .number = site, .program = line->step_count > 0, .team = line->team, .digest = digest_of(loops, site, size)
    };
    if (line->bulk) loop->engine = LOOP_BULK;
    for (uint32_t i = 0; i < line->clause_count; i++) {
        const struct word *word = &loop_words[line->clause[i].word];
        loop->times |= word->kind == TIMES;
        if (word->kind == TIMES) continue;
        uint64_t value = value_of(line, &line->clause[i], size, &(struct loop_row){ 0 });
        if (word->fixed && value) value = word->fixed;
        void *field = (char *)loop + word->offset;
        if (word->engine && value) loop->engine = word->engine - 1;
        switch ((enum kind)word->kind) {
        case FLAG: *(bool *)field = value > 0; break;
        case U8: *(uint8_t *)field = (uint8_t)MIN(value, UINT8_MAX); break;
        case U16: *(uint16_t *)field = (uint16_t)MIN(value, UINT16_MAX); break;
        case U32: *(uint32_t *)field = (uint32_t)MIN(value, UINT32_MAX); break;
        default: *(uint64_t *)field = value;
        }
    }
}

uint32_t loops_times(const struct loops *loops, enum site site, const uint64_t size[SITE_SIZES], uint32_t rows)
{
    const struct line *line = &loops->line[site];
    const struct loop_row row = { .rows = rows };
    for (uint32_t i = 0; i < line->clause_count; i++)
        if (loop_words[line->clause[i].word].kind == TIMES)
            return (uint32_t)MIN(value_of(line, &line->clause[i], size, &row), UINT32_MAX);
    return rows;
}

static bool is_block(uint8_t code) { return code < LOOP_END && loop_codes[code].form == BLOCK; }

uint32_t loops_program(const struct loops *loops, enum site site, const uint64_t size[SITE_SIZES],
                       const struct loop_row *row, struct loop_op op[LOOP_OPS])
{
    const struct line *line = &loops->line[site];
    for (uint32_t i = 0; i < line->step_count; i++) {
        const struct step *step = &line->step[i];
        const bool block = is_block(step->code);
        const bool by = step->by.end > step->by.begin;
        const uint64_t n = value_of(line, &step->n, size, row);
        const uint64_t wide = by ? value_of(line, &step->by, size, row) : ACCESS_BYTES;
        op[i] = (struct loop_op){ .code = step->code, .place = step->place, .n = (uint32_t)MIN(n, UINT32_MAX) };
        op[i].by = block ? (uint16_t)(step->end - i) : (uint16_t)CLAMP(wide, 1, UINT16_MAX);
    }
    for (uint32_t i = 0; i < line->step_count; i++)
        if (is_block(op[i].code)) op[i + op[i].by].by = op[i].by;
    return line->step_count;
}

/* ---- text ---- */

struct reader {
    const char *path, *at, *end; /* the file's path; the next character; the end of the line */
    uint32_t number, nested, size_count;
    enum site site;  /* of the last line, if it was a site's */
    enum site other; /* where a line last named a site out of order: the site that was due; 0: none */
    bool program;    /* inside a program */
    char size[SITE_SIZES][NAME_BYTES];
    struct line *line;
    GError **error;
};

static bool refuse(const struct reader *r, const char *expected)
{
    const int left = (int)MIN(r->end - r->at, 40);
    return error_input(r->error, "%s:%u: expected %s, found \"%.*s\"", r->path, r->number, expected, left, r->at);
}

static void blanks_skip(struct reader *r)
{
    while (r->at < r->end && g_ascii_isspace(*r->at)) r->at++;
}

static bool taken(struct reader *r, char c)
{
    blanks_skip(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* Most names differ in their first letter. */
static bool same_name(const char *a, const char *b) { return a[0] == b[0] && !strcmp(a, b); }

static bool name_begins(const struct reader *r) { return r->at < r->end && g_ascii_isalpha(*r->at); }

static bool name_read(struct reader *r, const char *expected, char name[NAME_BYTES])
{
    blanks_skip(r);
    size_t length = 0;
    while (r->at + length < r->end && (g_ascii_isalnum(r->at[length]) || r->at[length] == '_' || r->at[length] == '-'))
        length++;
    if (!name_begins(r) || length >= NAME_BYTES) return refuse(r, expected);
    memcpy(name, r->at, length);
    name[length] = '\0';
    r->at += length;
    return true;
}

static bool code_add(struct reader *r, enum operation operation, uint64_t value)
{
    if (r->line->code_count == CODES) return refuse(r, "a shorter line");
    r->line->code[r->line->code_count++] = (struct code){ (uint8_t)operation, value };
    return true;
}

static bool expression_read(struct reader *r);

static bool called_read(struct reader *r, enum operation operation)
{
    if (!taken(r, '(')) return refuse(r, "\"(\"");
    if (!expression_read(r)) return false;
    if (!taken(r, ',')) return refuse(r, "\",\"");
    if (!expression_read(r)) return false;
    return taken(r, ')') ? code_add(r, operation, 0) : refuse(r, "\")\"");
}

static bool named_read(struct reader *r)
{
    static const char *const functions[] = { "min", "max", "ceil" };
    const char *begin = r->at;
    char name[NAME_BYTES];
    if (!name_read(r, "a number, a size, or \"(\"", name)) return false;
    for (uint32_t i = 0; i < G_N_ELEMENTS(functions); i++)
        if (!strcmp(name, functions[i])) return called_read(r, LEAST + i);
    const bool own = r->program && g_strv_contains((const char *const[]){ "bytes", "made", "warps", NULL }, name);
    for (uint32_t i = 0; i < r->size_count; i++) {
        if (strcmp(name, r->size[i]) != 0) continue;
        if (!own) return code_add(r, SIZE, i);
        r->at = begin;
        return refuse(r, "another name for this size, since programs have bytes, made and warps");
    }
    if (!strcmp(name, "rows")) return code_add(r, ROWS, 0);
    if (r->program && !strcmp(name, "bytes")) return code_add(r, BYTES, 0);
    if (r->program && !strcmp(name, "made")) return code_add(r, MADE, 0);
    if (r->program && !strcmp(name, "warps")) return code_add(r, WARPS, 0);
    r->at = begin;
    return refuse(r, "a size that the site names, rows, min, max or ceil");
}

static bool primary_read(struct reader *r)
{
    if (taken(r, '(')) return expression_read(r) && (taken(r, ')') || refuse(r, "\")\""));
    if (r->at == r->end || !g_ascii_isdigit(*r->at)) return named_read(r);
    uint64_t value = 0;
    for (; r->at < r->end && g_ascii_isdigit(*r->at); r->at++)
        value = sum_of(product_of(value, 10), (uint64_t)(*r->at - '0'));
    return code_add(r, NUMBER, value);
}

/* Reads operands joined by signs of equal precedence, which group from the left. */
static bool operands_read(struct reader *r, const char *signs, const uint8_t *operators, bool (*read)(struct reader *))
{
    if (!read(r)) return false;
    for (;;) {
        blanks_skip(r);
        const char *sign = r->at < r->end ? strchr(signs, *r->at) : NULL;
        if (!sign || !*sign) return true;
        r->at++;
        if (!read(r) || !code_add(r, (enum operation)operators[sign - signs], 0)) return false;
    }
}

static bool product_read(struct reader *r)
{
    return operands_read(r, "*/%", (const uint8_t[]){ MULTIPLY, DIVIDE, REST }, primary_read);
}
static bool sum_read(struct reader *r)
{
    return operands_read(r, "+-", (const uint8_t[]){ ADD, SUBTRACT }, product_read);
}

static bool expression_read(struct reader *r)
{
    if (r->nested == NESTED_MAX) return refuse(r, "fewer brackets");
    r->nested++;
    const bool good = operands_read(r, ">", (const uint8_t[]){ MORE }, sum_read);
    r->nested--;
    return good;
}

/* Refuses a value that the word's field cannot hold, and `chase` without its cycles.  The value is written at `begin`.
 * A value that depends on sizes is not known yet, so it passes. */
static bool value_fits(struct reader *r, const struct clause *clause, const char *begin)
{
    static const uint64_t most[] = { [FLAG] = UINT64_MAX, [U8] = UINT8_MAX,   [U16] = UINT16_MAX,
                                     [U32] = UINT32_MAX,  [U64] = UINT64_MAX, [TIMES] = UINT32_MAX };
    const struct word *word = &loop_words[clause->word];
    const bool bare = clause->begin == clause->end && !strcmp(word->name, "chase");
    for (uint32_t i = clause->begin; i < clause->end; i++)
        if (r->line->code[i].operation > NUMBER && r->line->code[i].operation < ADD) return true;
    if (!bare && (word->fixed || value_of(r->line, clause, NULL, NULL) <= most[word->kind])) return true;
    g_autofree char *expected = bare
                                    ? g_strdup("chase with a number of cycles")
                                    : g_strdup_printf("%s of at most %" G_GUINT64_FORMAT, word->name, most[word->kind]);
    r->at = begin;
    return refuse(r, expected);
}

static bool clause_read(struct reader *r)
{
    struct line *line = r->line;
    const char *begin = r->at;
    char name[NAME_BYTES];
    uint32_t word = 0;
    if (line->clause_count == CLAUSES) return refuse(r, "fewer words");
    if (!name_read(r, "a word of `eptwin kernel words`", name)) return false;
    while (word < G_N_ELEMENTS(loop_words) && !same_name(loop_words[word].name, name)) word++;
    if (word == G_N_ELEMENTS(loop_words)) {
        r->at = begin;
        return refuse(r, "a word of `eptwin kernel words`");
    }
    struct clause *clause = &line->clause[line->clause_count++];
    *clause = (struct clause){ .word = (uint8_t)word, .begin = line->code_count };
    blanks_skip(r);
    if (r->at < r->end && *r->at != ',' && *r->at != '@' && !expression_read(r)) return false;
    clause->end = line->code_count;
    return value_fits(r, clause, begin);
}

/* ---- programs ---- */

static bool value_read(struct reader *r, struct clause *value)
{
    value->begin = r->line->code_count;
    if (!expression_read(r)) return false;
    value->end = r->line->code_count;
    return true;
}

/* If `word` comes next, takes it and returns true.  Leaves any other text in place. */
static bool word_taken(struct reader *r, const char *word)
{
    const char *begin = r->at;
    char name[NAME_BYTES];
    blanks_skip(r);
    size_t length = 0;
    while (r->at + length < r->end && g_ascii_isalnum(r->at[length]) && length + 1 < NAME_BYTES) length++;
    memcpy(name, r->at, length);
    name[length] = '\0';
    r->at += length;
    if (!strcmp(name, word)) return true;
    r->at = begin;
    return false;
}

static bool place_named(struct reader *r, struct step *step)
{
    for (uint8_t i = 0; i < G_N_ELEMENTS(loop_places); i++)
        if (word_taken(r, loop_places[i])) {
            step->place = i;
            return true;
        }
    return refuse(r, "source, target, shared or l2");
}

static bool steps_read(struct reader *r, uint32_t nested);

static bool step_values_read(struct reader *r, struct step *step, uint32_t nested)
{
    const uint8_t form = loop_codes[step->code].form;
    if (form == ALONE) return true;
    if (!value_read(r, &step->n)) return false;
    if (form == MOVED) {
        if (word_taken(r, "by") && !value_read(r, &step->by)) return false;
        return (!word_taken(r, "from") && !word_taken(r, "to")) || place_named(r, step);
    }
    if (form == NUMBERED) return true;
    if (!taken(r, '{')) return refuse(r, "\"{\"");
    return steps_read(r, nested + 1);
}

static struct step *step_add(struct reader *r)
{
    return r->line->step_count < LOOP_OPS ? &r->line->step[r->line->step_count++] : NULL;
}

static bool step_read(struct reader *r, uint32_t nested)
{
    const char *begin = r->at;
    char name[NAME_BYTES];
    uint8_t code = 0;
    struct step *step = step_add(r);
    if (!step) return refuse(r, "a shorter program");
    if (!name_read(r, "an operation of `eptwin kernel words`", name)) return false;
    while (code < LOOP_END && !same_name(loop_codes[code].name, name)) code++;
    if (code == LOOP_END) {
        r->at = begin;
        return refuse(r, "an operation of `eptwin kernel words`");
    }
    *step = (struct step){ .code = code, .place = loop_codes[code].place };
    r->line->team |= code == LOOP_FIRST || code == LOOP_OTHERS;
    r->line->bulk |= code == LOOP_BULK_OUT;
    if (!step_values_read(r, step, nested)) return false;
    step->end = (uint8_t)(r->line->step_count - 1);
    return true;
}

/* Reads a block, up to its "}", and closes it with an END. */
static bool steps_read(struct reader *r, uint32_t nested)
{
    if (nested > LOOP_NESTED) return refuse(r, "fewer braces");
    do {
        blanks_skip(r);
        if (!step_read(r, nested)) return false;
    } while (taken(r, ','));
    if (!taken(r, '}')) return refuse(r, "\",\" and an operation, or \"}\"");
    if (!nested) return true;
    struct step *end = step_add(r);
    if (!end) return refuse(r, "a shorter program");
    *end = (struct step){ .code = LOOP_END };
    return true;
}

static bool program_read(struct reader *r)
{
    r->program = true;
    const bool good = steps_read(r, 0);
    r->program = false;
    return good;
}

/* Reads "@ file:line". */
static bool place_read(struct reader *r)
{
    if (!taken(r, '@')) return refuse(r, "\",\" and a word, or \"@ file:line\"");
    blanks_skip(r);
    const char *begin = r->at, *colon = memchr(begin, ':', (size_t)(r->end - begin));
    if (!colon || colon == begin || colon + 1 == r->end) return refuse(r, "file:line");
    for (const char *c = colon + 1; c < r->end; c++)
        if (!g_ascii_isdigit(*c)) return refuse(r, "file:line");
    return true;
}

static bool sizes_read(struct reader *r)
{
    r->size_count = 0;
    if (!taken(r, '(')) return true;
    do {
        if (r->size_count == SITE_SIZES) return refuse(r, "at most 4 sizes");
        if (!name_read(r, "the name of a size", r->size[r->size_count])) return false;
        r->size_count++;
    } while (taken(r, ','));
    return taken(r, ')') || refuse(r, "\")\"");
}

static bool site_read(struct reader *r, struct loops *loops, enum site site)
{
    r->line = &loops->line[site];
    if (r->line->number)
        return error_input(r->error, "%s:%u: %s: stands in line %u already", r->path, r->number, loops_site_name(site),
                           r->line->number);
    *r->line = (struct line){ .number = r->number };
    if (!sizes_read(r)) return false;
    if (taken(r, '{')) {
        if (!program_read(r)) return false;
        blanks_skip(r);
        if (r->at < r->end && *r->at == '@') return place_read(r);
    }
    do {
        blanks_skip(r);
        if (!clause_read(r)) return false;
    } while (taken(r, ','));
    return place_read(r);
}

static bool line_read(struct reader *r, struct loops *loops)
{
    static const char *const heads[] = { "library", "source", "commit", "compiler" };
    char name[NAME_BYTES];
    blanks_skip(r);
    if (r->at == r->end || *r->at == '#') return true;
    while (r->end > r->at && g_ascii_isspace(r->end[-1])) r->end--;
    const char *begin = r->at;
    if (!name_read(r, "the name of a site", name)) return false;
    const enum site next = r->site + 1 < SITES ? r->site + 1 : SITE_NONE + 1; /* most sheets have the sites' order */
    const bool back = r->other && !strcmp(site_names[r->other], name); /* sites that read nothing come out of order */
    r->site = !strcmp(site_names[next], name) ? next : back ? r->other : loops_site_find(name);
    if (r->site != next) r->other = next;
    if (r->site) return site_read(r, loops, r->site);
    for (size_t i = 0; i < G_N_ELEMENTS(heads); i++)
        if (!strcmp(name, heads[i])) return true;
    r->at = begin;
    return refuse(r, "a site of `eptwin kernel show`, library, source, commit or compiler");
}

/* Returns where a line ends.  The line begins at `at` and includes the lines after it that continue it, which begin
 * with a blank. *lines is the number of all these lines. */
static const char *line_end(const char *at, const char *end, uint32_t *lines)
{
    *lines = 0;
    do {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
        ++*lines;
    } while (at < end && (*at == ' ' || *at == '\t'));
    return at;
}

static bool text_read(struct loops *loops, const char *path, const char *text, size_t size_bytes, GError **error)
{
    struct reader r = { .path = path, .at = text, .number = 1, .error = error };
    const char *const end = text + size_bytes;
    uint32_t lines;
    while (r.at < end) {
        const char *const next = line_end(r.at, end, &lines);
        r.end = next;
        if (!line_read(&r, loops)) return false;
        r.at = next;
        r.number += lines;
    }
    return true;
}

/* ---- sheets ---- */

#define SHEET(name) \
    extern const char _binary_models_kernels_##name##_loops_start[], _binary_models_kernels_##name##_loops_end[]
SHEET(deepep_v1);
SHEET(deepep_v2);
SHEET(nccl);
SHEET(tensorrt_llm);
SHEET(mori);
SHEET(deepgemm);
SHEET(pplx);
SHEET(nccl_ep);
SHEET(hybrid_ep);
#undef SHEET
#define SHEET(name) \
    { \
        "models/kernels/" #name ".loops", _binary_models_kernels_##name##_loops_start, \
            _binary_models_kernels_##name##_loops_end \
    }
static const struct {
    const char *path, *begin, *end;
} sheets[] = { SHEET(deepep_v1), SHEET(deepep_v2), SHEET(nccl),    SHEET(tensorrt_llm), SHEET(mori),
               SHEET(deepgemm),  SHEET(pplx),      SHEET(nccl_ep), SHEET(hybrid_ep) };
#undef SHEET

uint32_t loops_sheet_count(void) { return G_N_ELEMENTS(sheets); }

const char *loops_sheet_text(uint32_t sheet, size_t *size_bytes)
{
    *size_bytes = (size_t)(sheets[sheet].end - sheets[sheet].begin);
    return sheets[sheet].begin;
}

const struct loops *loops_shipped(void)
{
    static struct loops *shipped;
    static gsize once;
    if (g_once_init_enter(&once)) {
        shipped = g_new0(struct loops, 1);
        for (size_t i = 0; i < G_N_ELEMENTS(sheets); i++) {
            GError *error = NULL;
            if (!text_read(shipped, sheets[i].path, sheets[i].begin, (size_t)(sheets[i].end - sheets[i].begin), &error))
                g_error("%s", error->message);
        }
        g_once_init_leave(&once, 1);
    }
    return shipped;
}

/* The form of a line.  A world finds the cost of each form differently.  Each of `copy-engine`, `await`, `launch`,
 * `host-waits`, `arithmetic`, `from-shared` and `to-shared` makes a form of its own, and so does a program, with or
 * without `one-by-one`.  All other words make one form. */
static const char *line_form(const struct line *line)
{
    bool one_by_one = false;
    for (uint32_t i = 0; i < line->clause_count; i++)
        one_by_one |= !strcmp(loop_words[line->clause[i].word].name, "one-by-one");
    if (line->step_count) return one_by_one ? "a program, { ... }, with one-by-one" : "a program, { ... }";
    if (one_by_one) return "one-by-one without a program";
    for (uint32_t i = 0; i < line->clause_count; i++) {
        const char *name = loop_words[line->clause[i].word].name;
        if (loop_words[line->clause[i].word].engine > LOOP_BULK + 1 || g_str_has_suffix(name, "-shared")) return name;
    }
    return "words such as load";
}

/* Refuses a loop whose form differs from the shipped loop's, because the operation at that site then has no cost.
 * Refuses a sheet without loops, which was cut or is no sheet. */
static bool forms_alike(const struct loops *loops, const struct loops *shipped, const char *path, GError **error)
{
    bool any = false;
    for (enum site site = SITE_NONE + 1; site < SITES; site++) {
        const struct line *line = &loops->line[site];
        if (!line->number) continue;
        any = true;
        const char *wanted = line_form(&shipped->line[site]), *found = line_form(line);
        if (strcmp(wanted, found) != 0)
            return error_input(error, "%s:%u: %s: expected %s, found %s", path, line->number, loops_site_name(site),
                               wanted, found);
    }
    return any || error_input(error, "%s: expected a line of a site of `eptwin kernel show`, found none", path);
}

struct loops *loops_parse(const char *path, const char *text, size_t size_bytes, GError **error)
{
    static gint parsed;
    struct loops *loops = g_new0(struct loops, 1);
    loops->number = (uint32_t)g_atomic_int_add(&parsed, 1) + 1;
    const struct loops *shipped = loops_shipped();
    if (!text_read(loops, path, text, size_bytes, error) || !forms_alike(loops, shipped, path, error)) {
        g_free(loops);
        return NULL;
    }
    for (uint32_t i = 0; i < SITES; i++)
        if (!loops->line[i].number) loops->line[i] = shipped->line[i];
    return loops;
}

struct loops *loops_load(const char *path, GError **error)
{
    size_t size_bytes;
    g_autofree char *text = whole_file_read(path, FILE_BYTES_MAX, &size_bytes, error);
    return text ? loops_parse(path, text, size_bytes, error) : NULL;
}

void loops_free(struct loops *loops) { g_free(loops); }

const char *loops_site_name(enum site site) { return site_names[site]; }

enum site loops_site_find(const char *name)
{
    for (enum site site = SITE_NONE + 1; site < SITES; site++)
        if (!strcmp(site_names[site], name)) return site;
    return SITE_NONE;
}
