/* cluster.c - reads cluster files.  One table names every section and key, its kind of unit and its place in
 * the struct; what the table does not name is an error, so that a misspelt parameter cannot pass for a
 * default. */
#include "models/cluster.h"
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "models/key_file.h"
#include "sim/share.h"
#include "sim/stats.h"
#include "sim/units.h"

enum kind { KIND_TIME, KIND_RATE, KIND_SIZE, KIND_FRAME, KIND_MTU, KIND_COUNT, KIND_POSTING, KIND_CURVE };

/* What no machine exceeds: within these limits no sum of times and no product of sizes can overflow. */
#define TIME_PS_MAX   (10 * PS_PER_S)
#define CURVE_PS_MAX  1e16
#define RATE_BPS_MIN  1000000ull
#define RATE_BPS_MAX  8000000000000000ull
#define SIZE_BYTES_MAX 1000000000000ull
enum { FRAME_BYTES_MAX = 4096, MTU_BYTES_MIN = 64, MTU_BYTES_MAX = 65536, COUNT_MAX = 65535 };

struct key {
    const char *section, *name;
    enum kind kind;
    bool optional;
    size_t offset;
};

#define KEY(section, name, kind, optional, field)                                                            \
    {                                                                                                        \
        section, name, kind, optional, offsetof(struct cluster, field)                                       \
    }
#define WORK(section, name, optional, field)                               \
    KEY(section, name "-row", KIND_TIME, optional, field.row_ps),          \
    KEY(section, name "-warp-rate", KIND_RATE, optional, field.warp_rate_bps), \
    KEY(section, name "-sm-rate", KIND_RATE, optional, field.sm_rate_bps)
#define HOST_WORK(name, field)                                             \
    KEY("host", name "-row", KIND_TIME, false, field.row_ps),              \
    KEY("host", name "-rate", KIND_RATE, false, field.warp_rate_bps)

static const struct key keys[] = {
    KEY("gpu", "sms", KIND_COUNT, false, gpu.sms),
    KEY("gpu", "launch", KIND_TIME, false, gpu.launch_ps),
    KEY("gpu", "setup", KIND_TIME, true, gpu.setup_ps),
    KEY("gpu", "host-sync", KIND_TIME, true, gpu.host_sync_ps),
    KEY("gpu", "call", KIND_TIME, true, gpu.call_ps),
    KEY("gpu", "step", KIND_TIME, false, gpu.step_ps),
    KEY("gpu", "poll", KIND_TIME, false, gpu.poll_ps),
    KEY("gpu", "fence", KIND_TIME, false, gpu.fence_ps),
    KEY("gpu", "flag", KIND_TIME, false, gpu.flag_ps),
    KEY("gpu", "hbm-rate", KIND_RATE, false, gpu.hbm_rate_bps),
    WORK("gpu", "store", false, gpu.store),
    KEY("gpu", "store-deep-rate", KIND_RATE, true, gpu.store_deep_rate_bps),
    WORK("gpu", "copy", false, gpu.copy),
    WORK("gpu", "bulk", true, gpu.bulk),
    KEY("gpu", "shared-align", KIND_FRAME, true, gpu.shared_align_bytes),
    KEY("gpu", "bulk-skew-rate", KIND_RATE, true, gpu.bulk_skew_rate_bps),
    WORK("gpu", "cast", false, gpu.cast),
    WORK("gpu", "reduce", false, gpu.reduce),
    KEY("gpu", "reduce-load-rate", KIND_RATE, false, gpu.reduce_load_rate_bps),
    KEY("gpu", "scan-rate", KIND_RATE, false, gpu.scan_rate_bps),
    KEY("gpu", "scan-row", KIND_TIME, false, gpu.scan_row_ps),
    KEY("gpu", "peek", KIND_TIME, false, gpu.peek_ps),
    KEY("nvlink", "gpus", KIND_COUNT, false, nvlink.gpus),
    KEY("nvlink", "line-rate", KIND_RATE, true, nvlink.line_rate_bps),
    KEY("nvlink", "egress-rate", KIND_RATE, false, nvlink.egress_rate_bps),
    KEY("nvlink", "ingress-rate", KIND_RATE, false, nvlink.ingress_rate_bps),
    KEY("nvlink", "latency", KIND_TIME, false, nvlink.latency_ps),
    KEY("nvlink", "crossing", KIND_TIME, true, nvlink.crossing_ps),
    KEY("nic", "gpus-per-nic", KIND_COUNT, true, nic.gpus_per_nic),
    KEY("nic", "line-rate", KIND_RATE, true, nic.line_rate_bps),
    KEY("nic", "rate", KIND_RATE, false, nic.rate_bps),
    KEY("nic", "header", KIND_FRAME, true, nic.header_bytes),
    KEY("nic", "mtu", KIND_MTU, true, nic.mtu_bytes),
    KEY("nic", "message", KIND_TIME, true, nic.message_ps),
    KEY("nic", "signal", KIND_TIME, true, nic.signal_ps),
    KEY("nic", "signal-size", KIND_FRAME, true, nic.signal_bytes),
    KEY("nic", "fetch", KIND_TIME, true, nic.fetch_ps),
    KEY("nic", "deliver", KIND_TIME, true, nic.deliver_ps),
    KEY("nic", "posting", KIND_POSTING, true, nic.posting),
    KEY("nic", "post", KIND_TIME, true, nic.post_ps),
    KEY("nic", "doorbell", KIND_TIME, true, nic.doorbell_ps),
    KEY("nic", "proxy", KIND_TIME, true, nic.proxy_ps),
    KEY("nic", "proxy-threads", KIND_COUNT, true, nic.proxy_threads),
    KEY("nic", "queue-depth", KIND_COUNT, true, nic.queue_depth),
    KEY("nic", "window", KIND_SIZE, true, nic.window_bytes),
    KEY("network", "latency", KIND_TIME, false, network.latency_ps),
    KEY("network", "rate", KIND_RATE, true, network.rate_bps),
    KEY("host", "cores", KIND_COUNT, false, host.cores),
    KEY("host", "step", KIND_TIME, false, host.step_ps),
    KEY("host", "poll", KIND_TIME, false, host.poll_ps),
    KEY("host", "progress", KIND_TIME, true, host.progress_ps),
    KEY("host", "switch", KIND_TIME, false, host.switch_ps),
    KEY("host", "slice", KIND_TIME, true, host.slice_ps),
    KEY("host", "store", KIND_TIME, false, host.store_ps),
    KEY("host", "store-rate", KIND_RATE, false, host.store_rate_bps),
    KEY("host", "interrupt", KIND_TIME, true, host.interrupt_ps),
    KEY("host", "put", KIND_CURVE, false, host.put),
    KEY("host", "signal", KIND_TIME, false, host.signal_ps),
    HOST_WORK("copy", host.copy),
    HOST_WORK("cast", host.cast),
    HOST_WORK("reduce", host.reduce),
    HOST_WORK("sum", host.sum),
    KEY("host", "scan-rate", KIND_RATE, false, host.scan_rate_bps),
};

struct unit { const char *name; double factor; };

/* "<number> <unit>", the number finite and not negative; the result rounded to a whole number below 2^63. */
static bool parse_with_unit(const char *text, const struct unit *units, uint64_t *value)
{
    char *end;
    const double number = g_ascii_strtod(text, &end);
    if (end == text || !isfinite(number) || number < 0) return false;
    while (*end == ' ') end++;
    for (const struct unit *u = units; u->name; u++) {
        if (strcmp(end, u->name)) continue;
        const double scaled = number * u->factor + 0.5;
        if (scaled >= 9.2e18) return false;
        *value = (uint64_t)scaled;
        return true;
    }
    return false;
}

bool cluster_parse_rate(const char *text, uint64_t *rate_bps)
{
    static const struct unit units[] = { { "GB/s", 8e9 },    { "MB/s", 8e6 },   { "KB/s", 8e3 },
                                         { "Tbit/s", 1e12 }, { "Gbit/s", 1e9 }, { "Mbit/s", 1e6 },
                                         { "TB/s", 8e12 },   { NULL, 0 } };
    return parse_with_unit(text, units, rate_bps);
}

bool cluster_parse_time(const char *text, uint64_t *time_ps)
{
    static const struct unit units[] = {
        { "ps", 1 }, { "ns", 1e3 }, { "us", 1e6 }, { "ms", 1e9 }, { NULL, 0 }
    };
    return parse_with_unit(text, units, time_ps);
}

bool cluster_parse_size(const char *text, uint64_t *size_bytes)
{
    static const struct unit units[] = { { "B", 1 },         { "KB", 1e3 }, { "KiB", 1024 }, { "MB", 1e6 },
                                         { "MiB", 1048576 }, { "GB", 1e9 }, { NULL, 0 } };
    return parse_with_unit(text, units, size_bytes);
}

static bool parse_count(const char *text, uint32_t *count)
{
    guint64 value;
    if (!g_ascii_string_to_unsigned(text, 10, 1, COUNT_MAX, &value, NULL)) return false;
    *count = (uint32_t)value;
    return true;
}

static bool parse_posting(const char *text, enum cluster_posting *posting)
{
    *posting = strcmp(text, "gpu") ? CLUSTER_POST_PROXY : CLUSTER_POST_GPU;
    return !strcmp(text, "gpu") || !strcmp(text, "proxy");
}

static bool parse_within(bool (*parse)(const char *, uint64_t *), const char *text, uint64_t least,
                         uint64_t most, uint64_t *value)
{
    return parse(text, value) && *value >= least && *value <= most;
}

/* "27 us at 1024 B". */
static bool parse_point(const char *text, double *time_ps, double *size_bytes)
{
    g_auto(GStrv) part = g_strsplit(text, " at ", 2);
    uint64_t time, size;
    if (!part[0] || !part[1]) return false;
    if (!parse_within(cluster_parse_time, g_strstrip(part[0]), 0, TIME_PS_MAX, &time)) return false;
    if (!parse_within(cluster_parse_size, g_strstrip(part[1]), 0, SIZE_BYTES_MAX, &size)) return false;
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
    const double time_ps = stats_interpolate(curve->size_bytes, curve->time_ps, curve->count, (double)size_bytes);
    return (uint64_t)fmin(time_ps + 0.5, CURVE_PS_MAX);
}

static bool parse_kind(enum kind kind, const char *text, void *field)
{
    switch (kind) {
    case KIND_TIME:    return parse_within(cluster_parse_time, text, 0, TIME_PS_MAX, field);
    case KIND_RATE:    return parse_within(cluster_parse_rate, text, RATE_BPS_MIN, RATE_BPS_MAX, field);
    case KIND_SIZE:    return parse_within(cluster_parse_size, text, 0, SIZE_BYTES_MAX, field);
    case KIND_FRAME:   return parse_within(cluster_parse_size, text, 0, FRAME_BYTES_MAX, field);
    case KIND_MTU:     return parse_within(cluster_parse_size, text, MTU_BYTES_MIN, MTU_BYTES_MAX, field);
    case KIND_COUNT:   return parse_count(text, field);
    case KIND_POSTING: return parse_posting(text, field);
    case KIND_CURVE:   return cluster_parse_curve(text, field);
    }
    g_assert_not_reached();
}

static bool parse_value(const struct key *k, const struct key_file *file, const char *text, struct cluster *c,
                        GError **error)
{
    static const char *const expected[] = {
        [KIND_TIME] = "a time from 0 to 10 s such as \"870 ns\" (ps, ns, us, ms)",
        [KIND_RATE] =
            "a rate from 1 Mbit/s to 1000 TB/s such as \"45 GB/s\" (KB, MB, GB, TB/s, Mbit, Gbit, Tbit/s)",
        [KIND_SIZE] = "a size up to 1000 GB such as \"64 KB\" (B, KB, KiB, MB, MiB, GB)",
        [KIND_FRAME] = "a size up to 4096 B such as \"26 B\" (B, KB, KiB)",
        [KIND_MTU] = "a size from 64 to 65536 B such as \"4096 B\" (B, KB, KiB)",
        [KIND_COUNT] = "a whole number from 1 to 65535",
        [KIND_POSTING] = "\"gpu\" or \"proxy\"",
        [KIND_CURVE] = "times, not falling, at rising sizes such as \"27 us at 1024 B, 130 us at 14336 B\"",
    };
    if (parse_kind(k->kind, text, (char *)c + k->offset)) return true;
    g_set_error(error, CLUSTER_ERROR, 0, "%s:%u: [%s] %s: expected %s, found \"%s\"", c->path,
                key_file_line(file, k->section, k->name), k->section, k->name, expected[k->kind], text);
    return false;
}

static bool read_keys(const struct key_file *file, struct cluster *c, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const uint32_t section_line = key_file_line(file, keys[i].section, NULL);
        g_autofree char *text = key_file_text(file, keys[i].section, keys[i].name);
        if (!section_line || (!text && keys[i].optional)) continue;
        if (!text) {
            g_set_error(error, CLUSTER_ERROR, 0, "%s:%u: [%s] lacks the key %s", c->path, section_line,
                        keys[i].section, keys[i].name);
            return false;
        }
        if (!parse_value(&keys[i], file, text, c, error)) return false;
    }
    return true;
}

static bool section_known(const char *section)
{
    bool known = !strcmp(section, "cluster");
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) known |= !strcmp(section, keys[i].section);
    return known;
}

static bool key_known(const char *section, const char *name)
{
    if (!strcmp(section, "cluster")) return !strcmp(name, "name");
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        if (!strcmp(section, keys[i].section) && !strcmp(name, keys[i].name)) return true;
    return false;
}

static bool refuse_unknown(const struct key_file *file, const struct cluster *c, GError **error)
{
    g_auto(GStrv) sections = g_key_file_get_groups(file->keys, NULL);
    for (char **s = sections; *s; s++) {
        if (!section_known(*s)) {
            g_set_error(error, CLUSTER_ERROR, 0, "%s:%u: [%s]: unknown section", c->path,
                        key_file_line(file, *s, NULL), *s);
            return false;
        }
        g_auto(GStrv) names = g_key_file_get_keys(file->keys, *s, NULL, NULL);
        for (char **n = names; n && *n; n++) {
            if (key_known(*s, *n)) continue;
            g_set_error(error, CLUSTER_ERROR, 0, "%s:%u: [%s] %s: unknown key", c->path,
                        key_file_line(file, *s, *n), *s, *n);
            return false;
        }
    }
    return true;
}

/* The parts must make a whole: GPUs with NVLink, or a host; RDMA parts come together. */
static bool check_parts(const struct key_file *file, struct cluster *c, GError **error)
{
    const uint32_t gpu = key_file_line(file, "gpu", NULL), host = key_file_line(file, "host", NULL);
    const char *missing = NULL;
    if (gpu && host) {
        g_set_error(error, CLUSTER_ERROR, 0, "%s:%u: has both [gpu] and [host]: ranks run on one of them",
                    c->path, MAX(gpu, host));
        return false;
    }
    if (!gpu && !host) missing = "[gpu] or [host]";
    else if (gpu && !key_file_line(file, "nvlink", NULL)) missing = "[nvlink]";
    else if (gpu && key_file_line(file, "nic", NULL) && !key_file_line(file, "network", NULL)) missing = "[network]";
    if (missing) {
        g_set_error(error, CLUSTER_ERROR, 0, "%s: lacks the section %s", c->path, missing);
        return false;
    }
    if (!c->nic.gpus_per_nic) c->nic.gpus_per_nic = 1;
    if (!c->nic.mtu_bytes) c->nic.mtu_bytes = 4096;
    if (!c->nic.proxy_threads) c->nic.proxy_threads = 1;
    c->name = key_file_text(file, "cluster", "name");
    if (!c->name) c->name = g_path_get_basename(c->path);
    return true;
}

/* The file itself, or a shipped one of that name; NULL and *error, with places and names, when it is neither. */
static char *find_file(const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_EXISTS) || strchr(path, '/')) return g_strdup(path);
    char *shipped = share_find(SHARE_CLUSTERS, path);
    if (shipped) return shipped;
    g_auto(GStrv) folders = share_folders(SHARE_CLUSTERS), names = share_names(SHARE_CLUSTERS);
    g_autofree char *places = g_strjoinv(", ", folders), *known = g_strjoinv(", ", names);
    g_set_error(error, CLUSTER_ERROR, 0, "%s: expected a cluster file%s%s, found none of that name here or in %s", path,
                *known ? " or one of " : "", known, places);
    return NULL;
}

struct cluster *cluster_load(const char *path, GError **error)
{
    g_autofree char *found = find_file(path, error);
    g_autoptr(key_file) file = found ? key_file_load(found, error) : NULL;
    if (!file) return NULL;
    struct cluster *c = g_new0(struct cluster, 1);
    c->path = g_steal_pointer(&found);
    if (refuse_unknown(file, c, error) && read_keys(file, c, error) && check_parts(file, c, error)) return c;
    cluster_free(c);
    return NULL;
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster) return;
    g_free(cluster->name);
    g_free(cluster->path);
    g_free(cluster);
}
