/* launches.c - reads --arrival and --slow, see launches.h. */
#include "models/predict/launches.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/cluster.h"
#include "models/hardware/world/world.h"
#include "reports/record.h"
#include "reports/whole_file.h"
#include "sim/error.h"
#include "sim/rng.h"
#include "sim/text.h"
#include "sim/units.h"

#define ARRIVAL_PS_MAX (10 * PS_PER_S)
#define SLOW_MAX       1000.0
#define TIME_EXPECTED  "a time from 0 to 10 s such as \"3us\" (ps, ns, us, ms)"

enum { FILE_BYTES_MAX = 16 << 20 };

static bool refuse(const char *option, const char *expected, const char *text, GError **error)
{
    return error_input(error, "%s: expected %s, found \"%s\"", option, expected, text);
}

static bool time_parse(const char *text, uint64_t *time_ps)
{
    return cluster_parse_time(text, time_ps) && *time_ps <= ARRIVAL_PS_MAX;
}

static bool times_list(char **word, uint32_t ranks, const char *where, uint64_t *time_ps, GError **error)
{
    uint32_t count = 0;
    for (; word[count]; count++) {
        if (count == ranks) break;
        if (!time_parse(g_strstrip(word[count]), &time_ps[count]))
            return refuse(where, TIME_EXPECTED, word[count], error);
    }
    if (count == ranks && !word[count]) return true;
    return error_input(error, "%s: expected %u times, one for each rank, found %s", where, ranks,
                       count == ranks ? "more" : "fewer");
}

static bool times_file(const char *path, uint32_t ranks, uint64_t *time_ps, GError **error)
{
    size_t size_bytes;
    g_autofree char *text = whole_file_read(path, FILE_BYTES_MAX, &size_bytes, error);
    if (!text) return false;
    g_auto(GStrv) line = g_strsplit(text, "\n", -1);
    uint32_t count = 0;
    for (uint32_t i = 0; line[i]; i++) {
        char *comment = strchr(line[i], '#');
        if (comment) *comment = 0;
        const char *word = g_strstrip(line[i]);
        if (!*word) continue;
        if (count == ranks || !time_parse(word, &time_ps[count]))
            return error_input(error, "%s:%u: time: expected %s, found \"%s\"", path, i + 1,
                               count == ranks ? "no more times than ranks" : TIME_EXPECTED, word);
        count++;
    }
    if (count == ranks) return true;
    return error_input(error, "%s: expected %u times, one for each rank, found %u", path, ranks, count);
}

/* Reads ranks' starts from a record.  Refuses a record that lacks the row of a rank, as it does if the rank failed. */
static bool times_record(const char *path, const struct launches_kernel *kernel, uint64_t *time_ps, GError **error)
{
    g_autoptr(record) record = record_read(path, error);
    bool good = record != NULL;
    for (uint32_t r = 0; good && r < kernel->ranks; r++) {
        const struct record_row *row = record_find(record, kernel->phase, (int32_t)r, "arrival_us");
        good = row && row->value >= 0 && row->value * (double)PS_PER_US <= (double)ARRIVAL_PS_MAX;
        if (good) time_ps[r] = (uint64_t)llround(row->value * (double)PS_PER_US);
        else
            error_input(error,
                        "%s: %s: arrival_us: expected a time from 0 to 10 s of rank %u, as a replay on one host "
                        "records it, found %s",
                        path, kernel->phase, r, row ? "another value" : "none");
    }
    const bool more = good && record_find(record, kernel->phase, (int32_t)kernel->ranks, "arrival_us");
    if (more)
        error_input(error, "%s: %s: arrival_us: expected %u ranks, as the case has, found more", path, kernel->phase,
                    kernel->ranks);
    return good && !more;
}

bool launches_arrival(const char *text, const struct launches_kernel *kernel, uint64_t *time_ps, GError **error)
{
    const uint32_t ranks = kernel->ranks;
    for (uint32_t r = 0; r < ranks; r++) time_ps[r] = 0;
    if (!text) return true;
    if (g_str_has_prefix(text, "file:")) return times_file(text + 5, ranks, time_ps, error);
    if (g_str_has_prefix(text, "record:")) return times_record(text + 7, kernel, time_ps, error);
    const bool uniform = g_str_has_prefix(text, "uniform:"), exponential = g_str_has_prefix(text, "exp:");
    if (!uniform && !exponential && strchr(text, ':'))
        return refuse("arrival", "uniform:TIME, exp:TIME, file:PATH, record:PATH or TIME|TIME|...", text, error);
    if (!uniform && !exponential) {
        g_auto(GStrv) word = g_strsplit(text, "|", -1);
        return times_list(word, ranks, "arrival", time_ps, error);
    }
    uint64_t scale_ps;
    const char *scale = strchr(text, ':') + 1;
    if (!time_parse(scale, &scale_ps)) return refuse("arrival", TIME_EXPECTED, scale, error);
    struct rng rng;
    rng_seed(&rng, kernel->seed ^ (uint64_t)(kernel->draw + 1) << 32);
    for (uint32_t r = 0; r < ranks; r++) {
        const double share = rng_uniform(&rng);
        const double drawn = uniform ? share : -log1p(-share);
        assert(drawn >= 0 && isfinite(drawn));
        time_ps[r] = (uint64_t)MIN(drawn * (double)scale_ps, (double)ARRIVAL_PS_MAX);
    }
    return true;
}

/* Reads one rank's word: "3:2x" or "3:1.5". */
static bool slow_parse(const char *word, uint32_t ranks, uint32_t *slow)
{
    g_auto(GStrv) part = g_strsplit(word, ":", 2);
    guint64 rank;
    double factor;
    if (!part[0] || !part[1] || !text_whole(part[0], 0, ranks - 1, &rank)) return false;
    const char *end = text_decimal(part[1], &factor);
    if (!end || (strcmp(end, "") != 0 && strcmp(end, "x") != 0)) return false;
    if (!(factor >= 0.01 && factor <= SLOW_MAX)) return false;
    assert(rank < ranks);
    slow[rank] = (uint32_t)lround(factor * WORLD_SLOW_ONE);
    assert(slow[rank] > 0);
    return true;
}

bool launches_slow(const char *text, uint32_t ranks, uint32_t *slow, GError **error)
{
    for (uint32_t r = 0; r < ranks; r++) slow[r] = WORLD_SLOW_ONE;
    g_auto(GStrv) word = g_strsplit(text ? text : "", "|", -1);
    for (char **w = word; *w; w++)
        if (!slow_parse(*w, ranks, slow))
            return refuse("slow", "RANK:FACTOR|..., ranks below num-ranks, factors from 0.01 to 1000", *w, error);
    return true;
}
