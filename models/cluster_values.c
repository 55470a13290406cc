/* cluster_values.c - text of a cluster file as a number with its unit, within limits; see cluster_values.h.  Knows no
 * keys and no files. */
#include "models/cluster_values.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/cluster.h"
#include "sim/stats.h"
#include "sim/text.h"
#include "sim/units.h"

/* Limits that no machine exceeds.  Within them no sum of times and no product of sizes overflows. */
#define TIME_PS_MAX     (10 * PS_PER_S)
#define CURVE_PS_MAX    1e16
#define RATE_BPS_MIN    1000000ull
#define RATE_BPS_MAX    8000000000000000ull
#define SIZE_BYTES_MAX  1000000000000ull
/* The shortest interval of DCQCN's clocks.  The simulation follows each tick, so ticks must not be too many. */
#define INTERVAL_PS_MIN (100 * PS_PER_NS)
#define PIECE_BYTES_MIN 1000ull
enum { FRAME_BYTES_MAX = 4096, MTU_BYTES_MIN = 64, MTU_BYTES_MAX = 65536, COUNT_MAX = 65535 };

bool cluster_parse_rate(const char *text, uint64_t *rate_bps)
{
    static const struct text_unit units[] = { { "GB/s", 8e9 },    { "MB/s", 8e6 },   { "KB/s", 8e3 },
                                              { "Tbit/s", 1e12 }, { "Gbit/s", 1e9 }, { "Mbit/s", 1e6 },
                                              { "TB/s", 8e12 },   { NULL, 0 } };
    return text_with_unit(text, units, rate_bps);
}

bool cluster_parse_time(const char *text, uint64_t *time_ps)
{
    static const struct text_unit units[] = { { "ps", 1 }, { "ns", 1e3 }, { "us", 1e6 }, { "ms", 1e9 }, { NULL, 0 } };
    return text_with_unit(text, units, time_ps);
}

static bool parse_count(const char *text, uint32_t *count)
{
    guint64 value;
    if (!text_whole(text, 1, COUNT_MAX, &value)) return false;
    *count = (uint32_t)value;
    return true;
}

static bool parse_nics(const char *text, uint32_t *count)
{
    *count = CLUSTER_NO_NICS;
    return !strcmp(text, "0") || parse_count(text, count);
}

static bool parse_nics_of(const char *text, struct cluster_nics_of *of)
{
    of->count = 0;
    g_auto(GStrv) word = g_strsplit_set(text, " \t", -1);
    for (char **w = word; *w; w++) {
        guint64 nic;
        if (!**w) continue;
        if (of->count == CLUSTER_NICS_OF_MAX || !text_whole(*w, 0, UINT16_MAX, &nic)) return false;
        of->nic[of->count++] = (uint16_t)nic;
    }
    return of->count > 0;
}

/* Parses "0 2 1 3 1 3 1 2 | 0 3 0 3 0 3 0 3": digits with blanks between them. */
static bool parse_passes(const char *text, struct cluster_passes *passes)
{
    for (uint32_t i = 0; i < 2 * CLUSTER_PLACES; i++, text++) {
        text += strspn(text, " ");
        if (i == CLUSTER_PLACES && *text++ != '|') return false;
        text += strspn(text, " ");
        if (!g_ascii_isdigit(*text)) return false;
        (i < CLUSTER_PLACES ? passes->in : passes->out)[i % CLUSTER_PLACES] = (uint8_t)g_ascii_digit_value(*text);
    }
    return !*text;
}

static bool parse_flag(const char *text, bool *flag)
{
    *flag = !strcmp(text, "yes");
    return *flag || !strcmp(text, "no");
}

/* Parses "2", "1.5" or "2:1" as a factor.  It must be from 1 to 1000. */
static bool parse_factor(const char *text, double *factor)
{
    const char *end = text_decimal(text, factor);
    if (end && !strcmp(end, ":1")) end += 2;
    return end && !*end && *factor >= 1 && *factor <= 1000;
}

/* Parses "0.01" or "1/256" as a share.  It must be above 0 and at most 1. */
static bool parse_share(const char *text, double *share)
{
    double by = 1;
    const char *end = text_decimal(text, share);
    if (end && *end == '/') end = text_decimal(end + 1, &by);
    if (!end) return false;
    *share /= by;
    return !*end && *share > 0 && *share <= 1;
}

static bool parse_choice(const char *text, const char *choices, uint32_t *choice)
{
    g_auto(GStrv) names = g_strsplit(choices, "|", 0);
    for (*choice = 0; names[*choice]; (*choice)++)
        if (!strcmp(names[*choice], text)) return true;
    return false;
}

static bool parse_within(bool (*parse)(const char *, uint64_t *), const char *text, uint64_t least, uint64_t most,
                         uint64_t *value)
{
    return parse(text, value) && *value >= least && *value <= most;
}

/* Parses a point of a curve: "27 us at 1024 B". */
static bool parse_point(const char *text, double *time_ps, double *size_bytes)
{
    g_auto(GStrv) part = g_strsplit(text, " at ", 2);
    uint64_t time, size;
    if (!part[0] || !part[1]) return false;
    if (!parse_within(cluster_parse_time, g_strstrip(part[0]), 0, TIME_PS_MAX, &time)) return false;
    if (!parse_within(text_size, g_strstrip(part[1]), 0, SIZE_BYTES_MAX, &size)) return false;
    *time_ps = (double)time;
    *size_bytes = (double)size;
    return true;
}

bool cluster_parse_curve(const char *text, struct cluster_curve *curve)
{
    g_auto(GStrv) point = g_strsplit(text, ",", CLUSTER_CURVE_MAX + 1);
    curve->count = 0;
    for (uint32_t i = 0; point[i]; i++) {
        if (i == CLUSTER_CURVE_MAX || !parse_point(point[i], &curve->time_ps[i], &curve->size_bytes[i])) return false;
        if (i && curve->size_bytes[i] <= curve->size_bytes[i - 1]) return false;
        if (i && curve->time_ps[i] < curve->time_ps[i - 1]) return false;
        curve->count = i + 1;
    }
    return curve->count > 0;
}

uint64_t cluster_curve_ps(const struct cluster_curve *curve, uint64_t size_bytes)
{
    assert(curve->count > 0 && curve->count <= CLUSTER_CURVE_MAX);
    const double time_ps = stats_interpolate(curve->size_bytes, curve->time_ps, curve->count, (double)size_bytes);
    return (uint64_t)fmin(time_ps + 0.5, CURVE_PS_MAX);
}

/* Appends the pairs of one word: "8", or "0-7". */
static bool parse_pairs(const char *word, uint8_t round, struct cluster_cpcs *cpcs)
{
    g_auto(GStrv) end = g_strsplit(word, "-", 2);
    uint64_t first, last;
    if (!text_whole(end[0], 0, CLUSTER_CPCS_MAX - 1, &first)) return false;
    if (!text_whole(end[1] ? end[1] : end[0], first, CLUSTER_CPCS_MAX - 1, &last)) return false;
    for (uint64_t cpc = first; cpc <= last; cpc++) {
        if (cpcs->pairs == CLUSTER_PAIRS_MAX) return false;
        cpcs->cpc[cpcs->pairs] = (uint8_t)cpc;
        cpcs->round[cpcs->pairs++] = round;
    }
    cpcs->cpcs = (uint8_t)MAX(cpcs->cpcs, last + 1);
    return true;
}

/* The number of GPUs that a word such as "2x" stands for; 0 if the word is not of this form. */
static uint8_t parse_gpus(const char *word)
{
    char *end;
    const uint64_t gpus = g_ascii_isdigit(*word) ? g_ascii_strtoull(word, &end, 10) : 0;
    return gpus && gpus <= UINT8_MAX && g_str_equal(end, "x") ? (uint8_t)gpus : 0;
}

static bool parse_die(const char *text, struct cluster_cpcs *cpcs)
{
    *cpcs = (struct cluster_cpcs){ 0 };
    uint8_t round = 0;
    g_auto(GStrv) word = g_strsplit_set(text, " \t", -1);
    for (char **w = word; *w; w++) {
        if (!**w) continue;
        if (!cpcs->gpus) {
            cpcs->gpus = parse_gpus(*w);
            if (cpcs->gpus) continue;
            cpcs->gpus = 1;
        }
        if (strcmp(*w, "|")) {
            if (!parse_pairs(*w, round, cpcs)) return false;
        } else if (!cpcs->pairs || cpcs->round[cpcs->pairs - 1] != round++) {
            return false; /* a round without pairs */
        }
    }
    return cpcs->pairs > 0 && cpcs->round[cpcs->pairs - 1] == round;
}

bool cluster_parse_cpcs(const char *text, struct cluster_dies *dies)
{
    *dies = (struct cluster_dies){ 0 };
    g_auto(GStrv) part = g_strsplit(text, "/", -1);
    for (char **p = part; *p; p++) {
        if (dies->kinds == CLUSTER_DIES_MAX || !parse_die(*p, &dies->kind[dies->kinds])) return false;
        if (dies->kind[dies->kinds++].pairs != dies->kind[0].pairs) return false;
    }
    return dies->kinds > 0;
}

const struct cluster_cpcs *cluster_cpcs_of(const struct cluster_dies *dies, uint32_t gpu)
{
    uint32_t gpus = 0, kind = 0;
    if (!dies->kinds) return NULL;
    for (uint32_t i = 0; i < dies->kinds; i++) gpus += dies->kind[i].gpus;
    for (gpu %= gpus; gpu >= dies->kind[kind].gpus; kind++) gpu -= dies->kind[kind].gpus;
    return &dies->kind[kind];
}

bool cluster_value_parse(enum cluster_kind kind, const char *choices, const char *text, void *field)
{
    switch (kind) {
    case KIND_TIME: return parse_within(cluster_parse_time, text, 0, TIME_PS_MAX, field);
    case KIND_RATE: return parse_within(cluster_parse_rate, text, RATE_BPS_MIN, RATE_BPS_MAX, field);
    case KIND_SIZE: return parse_within(text_size, text, 0, SIZE_BYTES_MAX, field);
    case KIND_FRAME: return parse_within(text_size, text, 0, FRAME_BYTES_MAX, field);
    case KIND_MTU: return parse_within(text_size, text, MTU_BYTES_MIN, MTU_BYTES_MAX, field);
    case KIND_COUNT: return parse_count(text, field);
    case KIND_NICS: return parse_nics(text, field);
    case KIND_CURVE: return cluster_parse_curve(text, field);
    case KIND_FLAG: return parse_flag(text, field);
    case KIND_CHOICE: return parse_choice(text, choices, field);
    case KIND_FACTOR: return parse_factor(text, field);
    case KIND_SHARE: return parse_share(text, field);
    case KIND_INTERVAL: return parse_within(cluster_parse_time, text, INTERVAL_PS_MIN, TIME_PS_MAX, field);
    case KIND_PIECE: return parse_within(text_size, text, PIECE_BYTES_MIN, SIZE_BYTES_MAX, field);
    case KIND_CPCS: return cluster_parse_cpcs(text, field);
    case KIND_NICS_OF: return parse_nics_of(text, field);
    case KIND_PASSES: return parse_passes(text, field);
    }
    g_assert_not_reached();
}

const char *cluster_value_expected(enum cluster_kind kind)
{
#define EXPECTED(name, form, expected) expected,
    static const char *const expected[] = { CLUSTER_KINDS(EXPECTED) };
    return expected[kind];
}
