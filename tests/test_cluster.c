/* test_cluster.c - is a cluster file either understood in full or refused with an error that names the fault?
 *
 * Aim: models/cluster.h.  Method: a right file is made wrong in one place at a time, each with the exact text that a
 * user reads.  Every shipped file is loaded.  Random numbers with units, written in several ways, must be read as the
 * numbers that were written. */
#include "models/cluster.h"
#include "models/cluster_keys.h"

#include <string.h>
#include "sim/rng.h"
#include "sim/text.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

static const char gpu_text[] = "[cluster]\nname = Two boards\n"
                               "[gpu]\nsms = 132\nlaunch = 1.73 us\nstep = 100 ns\npoll = 220 ns\n"
                               "hbm-rate = 2800 GB/s\n"
                               "store-sm-rate = 45 GB/s\n"
                               "reduce-sm-rate = 135 GB/s\nload = 400 ns\ncycle = 505 ps\n"
                               "[nvlink]\ngpus = 8\negress-rate = 160 GB/s\ningress-rate = 170 GB/s\nlatency = 550 ns\n"
                               "fence = 870 ns\npeek = 870 ns\n";

static const char nic_text[] =
    "[nic]\ngpus-per-nic = 2\nrate = 46.7 GB/s\nheader = 26 B\nmtu = 4 KiB\nmessage = 3 ns\nsignal = 4 ns\n"
    "signal-size = 54 B\nfetch = 2.45 us\ndeliver = 700 ns\nposting = proxy\npost = 2.3 us\ndoorbell = 770 ns\n"
    "proxy = 5 us\nproxy-threads = 4\nqueue-depth = 128\nwindow = 1 MB\n"
    "[network]\nlatency = 900 ns\nrate = 400 Gbit/s\n";

static const char host_text[] =
    "[host]\ncores = 2\nstep = 50 ns\npoll = 1 us\nswitch = 2 us\nstore = 100 ns\nstore-rate = 5 GB/s\n"
    "put = 200 ns at 0 B,450 ns at 1 KB , 450 ns at 2 KB, 2.2 us at 9000 B\n"
    "signal = 70 ns\ncopy-row = 10 ns\ncopy-rate = 8 GB/s\ncast-row = 20 ns\n"
    "cast-rate = 1 GB/s\nreduce-row = 0 ns\nreduce-rate = 2 GB/s\nsum-row = 0 ns\nsum-rate = 4 GB/s\n"
    "scan-rate = 3 GB/s\n";

/* Returns the line (from 1) of the first occurrence of `what` in a text. */
static uint32_t line_of(const char *text, const char *what)
{
    const char *at = MADE(strstr(text, what));
    uint32_t line = 1;
    for (const char *c = text; c < at; c++) line += *c == '\n';
    return line;
}

/* Whether `text` is refused with the message.  FILE in the message stands for the path. */
static bool refused(const char *text, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(cluster) c = cluster_load(temporary_text("c.ini", text), &error);
    g_auto(GStrv) parts = g_strsplit(message, "FILE", 0);
    g_autofree char *expected = g_strjoinv(temporary_path("c.ini"), parts);
    return !c && error_is(&error, expected);
}

/* Returns the GPU's and the NIC's file as one text, in which `from`, which occurs once, is replaced by `to`. */
static char *changed(const char *from, const char *to)
{
    g_autofree char *all = g_strconcat(gpu_text, nic_text, NULL);
    g_auto(GStrv) parts = g_strsplit(all, from, 2);
    CU_ASSERT_EQUAL_FATAL(g_strv_length(parts), 2);
    return g_strjoinv(to, parts);
}

/* As refused(), for a changed text.  LINE in the message stands for the first changed line. */
static bool change_refused(const char *from, const char *to, const char *message)
{
    g_autofree char *before = g_strconcat(gpu_text, nic_text, NULL);
    g_autofree char *number = g_strdup_printf("%u", line_of(before, from));
    g_auto(GStrv) parts = g_strsplit(message, "LINE", 0);
    g_autofree char *numbered = g_strjoinv(number, parts);
    g_autofree char *text = changed(from, to);
    return refused(text, numbered);
}

static struct cluster *load(const char *text)
{
    GError *error = NULL;
    struct cluster *c = cluster_load(temporary_text("c.ini", text), &error);
    if (error) printf("\n      said: %s\n", error->message);
    CU_ASSERT_PTR_NULL_FATAL(error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    return c;
}

TEST("gpu cluster in full")
{
    g_auto(GStrv) part = g_strsplit(gpu_text, "[nvlink]", 2);
    g_autofree char *text = g_strconcat(part[0],
                                        "load-l1 = 20.5 ns\nload-shared = 14.5 ns\naccess = 10 "
                                        "ns\nbulk-passes = 0 1 2 3 4 5 6 7|9 8 7 6 5 4 3 2\n[nvlink]",
                                        part[1], nic_text, NULL);
    g_autoptr(cluster) c = load(text);
    CU_ASSERT_STRING_EQUAL(c->name, "Two boards");
    CU_ASSERT(c->gpu.sms == 132 && c->gpu.launch_ps == 1730000 && c->gpu.step_ps == 100000);
    CU_ASSERT(c->gpu.poll_ps == 220000 && c->nvlink.fence_ps == 870000);
    CU_ASSERT(c->gpu.hbm_rate_bps == 22400000000000);
    CU_ASSERT_EQUAL(c->gpu.store_sm_rate_bps, 360000000000);
    CU_ASSERT(c->gpu.reduce_sm_rate_bps == 1080000000000);
    CU_ASSERT(c->gpu.engine.passes.in[7] == 7 && c->gpu.engine.passes.out[0] == 9);
    CU_ASSERT(c->nvlink.peek_ps == 870000 && c->gpu.scan_row_ps == 360000);
    CU_ASSERT(c->gpu.load_l1_ps == 20500 && c->gpu.load_shared_ps == 14500);
    CU_ASSERT(c->nvlink.gpus == 8 && c->nvlink.egress_rate_bps == 1280000000000);
    CU_ASSERT(c->nvlink.ingress_rate_bps == 1360000000000 && c->nvlink.latency_ps == 550000);
    CU_ASSERT(c->nic.gpus_per_nic == 2 && c->nic.rate_bps == 373600000000 && c->nic.header_bytes == 26);
    CU_ASSERT(c->nic.mtu_bytes == 4096 && c->nic.message_ps == 3000 && c->nic.signal_ps == 4000);
    CU_ASSERT(c->nic.signal_bytes == 54 && c->nic.fetch_ps == 2450000 && c->nic.deliver_ps == 700000);
    CU_ASSERT(c->nic.posting == CLUSTER_POST_PROXY && c->nic.post_ps == 2300000 && c->nic.doorbell_ps == 770000);
    CU_ASSERT(c->nic.proxy_ps == 5000000 && c->nic.proxy_threads == 4 && c->nic.queue_depth == 128);
    CU_ASSERT(c->nic.window_bytes == 1000000);
    CU_ASSERT(c->network.latency_ps == 900000 && c->network.rate_bps == 400000000000);
    CU_ASSERT(c->host.cores == 0);
    cluster_free(NULL);
}

TEST("host cluster in full")
{
    struct cluster *c = load(host_text);
    CU_ASSERT_STRING_EQUAL(c->name, "c.ini"); /* a cluster without a name gets that of its file */
    CU_ASSERT(c->host.cores == 2 && c->host.step_ps == 50000 && c->host.poll_ps == 1000000);
    CU_ASSERT(c->host.switch_ps == 2000000 && c->host.store_ps == 100000 && c->host.store_rate_bps == 40000000000);
    CU_ASSERT(c->host.put.count == 4 && c->host.signal_ps == 70000);
    CU_ASSERT(cluster_curve_ps(&c->host.put, 0) == 200000 && cluster_curve_ps(&c->host.put, 500) == 325000);
    CU_ASSERT(cluster_curve_ps(&c->host.put, 1500) == 450000 && cluster_curve_ps(&c->host.put, 16000) == 3950000);
    CU_ASSERT(cluster_curve_ps(&c->host.put, UINT64_MAX) == 10000000000000000);
    CU_ASSERT(c->host.interrupt_ps == 0); /* this key may be left out */
    CU_ASSERT(c->host.copy.row_ps == 10000 && c->host.copy.warp_rate_bps == 64000000000);
    CU_ASSERT(c->host.cast.row_ps == 20000 && c->host.cast.warp_rate_bps == 8000000000);
    CU_ASSERT(c->host.reduce.row_ps == 0 && c->host.reduce.warp_rate_bps == 16000000000);
    CU_ASSERT_EQUAL(c->host.sum.warp_rate_bps, 32000000000);
    CU_ASSERT(c->host.scan_rate_bps == 24000000000);
    CU_ASSERT(c->gpu.sms == 0 && c->nvlink.gpus == 0);
    cluster_free(c);
    g_autofree char *text = g_strconcat(host_text, "interrupt = 60 ns\n", NULL);
    c = load(text);
    CU_ASSERT(c->host.interrupt_ps == 60000);
    cluster_free(c);
}

TEST("what may be left out")
{
    struct cluster *c = load(gpu_text);
    CU_ASSERT(c->nic.rate_bps == 0 && c->nic.gpus_per_nic == 1 && c->nic.mtu_bytes == 4096);
    CU_ASSERT_EQUAL(c->nic.proxy_threads, 1);
    cluster_free(c);
    g_autofree char *text = g_strconcat(gpu_text, "[nic]\nrate = 50 GB/s\n[network]\nlatency = 0 ns\n", NULL);
    c = load(text);
    CU_ASSERT(c->nic.rate_bps == 400000000000 && c->nic.header_bytes == 0 && c->nic.posting == CLUSTER_POST_GPU);
    CU_ASSERT(c->nic.queue_depth == 0 && c->nic.window_bytes == 0 && c->network.rate_bps == 0);
    cluster_free(c);
}

TEST("comments after values")
{
    static const char *const written[] = { "sms = 132# of 144", "sms = 132   # data sheet; 144 in full", "sms=132;x",
                                           "sms =\t132\t", "# above\nsms = 132" };
    for (size_t i = 0; i < G_N_ELEMENTS(written); i++) {
        g_autofree char *text = changed("sms = 132", written[i]);
        g_autoptr(cluster) c = load(text);
        CU_ASSERT_EQUAL(c->gpu.sms, 132);
    }
    CU_ASSERT(change_refused("sms = 132", "sms = # 132",
                             "FILE:LINE: [gpu] sms: expected a whole number from 1 to 65535, found \"\""));
}

TEST("files that are none")
{
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL(cluster_load("no/such.ini", &error));
    CU_ASSERT(error_is(&error, "no/such.ini: cannot read: No such file or directory"));
    CU_ASSERT_PTR_NULL(cluster_load("nowhere-cx9", &error));
    CU_ASSERT(g_str_has_prefix(error->message, "nowhere-cx9: expected a cluster file or one of b200, "));
    CU_ASSERT(g_str_has_suffix(error->message, ", p6-b200, found none of that name here or in models/clusters"));
    g_clear_error(&error);
    CU_ASSERT_PTR_NULL(cluster_load(temporary_path(""), &error));
    CU_ASSERT(error && g_str_has_prefix(error->message, temporary_path("")) && !strchr(error->message, '\n'));
    g_clear_error(&error);
    CU_ASSERT_PTR_NULL(cluster_load(temporary_path(""), NULL)); /* works without a place for the error */
    CU_ASSERT(refused("", "FILE: lacks the section [gpu] or [host]"));
#define NO_LINE "expected \"[section]\", \"key = value\" or \"# comment\", found "
    CU_ASSERT(refused("sms = 132\n", "FILE:1: expected a \"[section]\" first, found \"sms = 132\""));
    CU_ASSERT(refused("[gpu]\n\177ELF\n", "FILE:2: " NO_LINE "\"\177ELF\""));
    CU_ASSERT(refused("# a\n\n[gpu] x\n", "FILE:3: " NO_LINE "\"[gpu] x\""));
    CU_ASSERT(refused("[gpu\nsms = 1\n", "FILE:1: " NO_LINE "\"[gpu\""));
    CU_ASSERT(refused("[]\n", "FILE:1: " NO_LINE "\"[]\""));
    CU_ASSERT(refused("[gpu]\r\n = 3\r\n", "FILE:2: " NO_LINE "\"= 3\""));
    temporary_write(temporary_path("c.ini"), "[gpu]\n\0\n", 8);
    CU_ASSERT_PTR_NULL(cluster_load(temporary_path("c.ini"), &error));
    CU_ASSERT(error && g_str_has_suffix(error->message, ": expected text, found a byte of 0"));
}

TEST("unknown words")
{
    CU_ASSERT(change_refused("[gpu]", "[gpus]", "FILE:LINE: [gpus]: unknown section; did you mean [gpu]?"));
    CU_ASSERT(change_refused("[network]", "[switch]\n[network]", "FILE:LINE: [switch]: unknown section"));
    CU_ASSERT(change_refused("poll = 220 ns", "poll-latency = 220 ns", "FILE:LINE: [gpu] poll-latency: unknown key"));
    CU_ASSERT(change_refused("name = ", "label = ", "FILE:LINE: [cluster] label: unknown key"));
    CU_ASSERT(
        change_refused("poll = 220 ns", "Poll = 220 ns", "FILE:LINE: [gpu] Poll: unknown key; did you mean poll?"));
    CU_ASSERT(change_refused("mtu = 4 KiB", "mtu[de] = 4 KiB", "FILE:LINE: [nic] mtu[de]: unknown key"));
    /* A key of one part that stands in another part is refused. */
    CU_ASSERT(change_refused("egress-rate = 160 GB/s", "sms = 3",
                             "FILE:LINE: [nvlink] sms: unknown key; did you mean [gpu] sms?"));
    CU_ASSERT(change_refused("poll = 220 ns", "peek = 870 ns",
                             "FILE:LINE: [gpu] peek: unknown key; did you mean [nvlink] peek?"));
    CU_ASSERT(change_refused("poll = 220 ns", "reduce-look = 5.6 ns",
                             "FILE:LINE: [gpu] reduce-look: unknown key; the sheets of kernels say it"));
    static const char *const passes[] = { "0 1 2 3 4 5 6 7", "0 1 2 3 4 5 6 7 | 0 1 2 3 4 5 6",
                                          "0 1 2 3 4 5 6 7 | 10" };
    for (size_t i = 0; i < G_N_ELEMENTS(passes); i++) {
        g_autofree char *to = g_strconcat("bulk-passes = ", passes[i], "\n[nvlink]", NULL);
        g_autofree char *message =
            g_strconcat("FILE:LINE: [gpu] bulk-passes: expected eight digits in and eight out, such as "
                        "\"0 2 1 3 1 3 1 2 | 0 3 0 3 0 3 0 3\", found \"",
                        passes[i], "\"", NULL);
        CU_ASSERT(change_refused("[nvlink]", to, message));
    }
}

/* Sections and keys may stand only once.  GLib would join the sections and take the last value. */
TEST("what stands twice")
{
    CU_ASSERT(change_refused("poll = 220 ns\nhbm", "sms = 1\nhbm", "FILE:LINE: [gpu] sms: stands in line 4 already"));
    CU_ASSERT(
        change_refused("poll = 220 ns\nhbm", "  sms= 132\nhbm", "FILE:LINE: [gpu] sms: stands in line 4 already"));
    CU_ASSERT(change_refused("[nic]\n", "[gpu]\n", "FILE:LINE: [gpu]: stands in line 3 already"));
    /* Equal keys of two parts do not clash. */
    g_autofree char *text = g_strconcat(gpu_text, nic_text, NULL);
    cluster_free(load(text));
}

/* Every line of the GPU's and of the host's part is needed.  Other parts need some of their lines. */
TEST("missing keys")
{
    static const char *const texts[] = { gpu_text, host_text };
    uint32_t needed = 0;
    for (size_t t = 0; t < G_N_ELEMENTS(texts); t++) {
        char **line = g_strsplit(texts[t], "\n", 0), section[20] = "";
        for (uint32_t i = 0; line[i]; i++) {
            if (line[i][0] == '[') g_strlcpy(section, line[i], sizeof section);
            if (!strchr(line[i], '=') || !strcmp(section, "[cluster]")) continue;
            char *own = line[i], *key = g_strndup(own, strcspn(own, " "));
            line[i] = "";
            g_autofree char *text = g_strjoinv("\n", line);
            g_autofree char *message =
                g_strdup_printf("FILE:%u: %s lacks the key %s", line_of(text, section), section, key);
            CU_ASSERT(refused(text, message));
            needed++;
            line[i] = own;
            g_free(key);
        }
        g_strfreev(line);
    }
    CU_ASSERT_EQUAL(needed, 9 + 6 + 17);
    /* A message lists all keys that a section lacks. */
    CU_ASSERT(change_refused("[nvlink]\ngpus = 8\negress-rate = 160 GB/s\ningress-rate = 170 GB/s\n", "[nvlink]\n",
                             "FILE:LINE: [nvlink] lacks the keys gpus, egress-rate, ingress-rate"));
    CU_ASSERT(change_refused("[nic]\ngpus-per-nic = 2\nrate = 46.7 GB/s\n", "[nic]\n",
                             "FILE:LINE: [nic] lacks the key rate"));
    CU_ASSERT(
        change_refused("[network]\nlatency = 900 ns\n", "[network]\n", "FILE:LINE: [network] lacks the key latency"));
}

TEST("missing sections")
{
    char *text = g_strdup(gpu_text);
    *strstr(text, "[nvlink]") = '\0';
    CU_ASSERT(refused(text, "FILE: lacks the section [nvlink]"));
    g_free(text);
    text = g_strconcat(gpu_text, "[nic]\nrate = 50 GB/s\n", NULL);
    CU_ASSERT(refused(text, "FILE: lacks the section [network]"));
    g_free(text);
    CU_ASSERT(refused(nic_text, "FILE: lacks the section [gpu] or [host]"));
    text = g_strconcat(gpu_text, "[network]\nlatency = 1 us\n", NULL);
    g_autofree char *unused =
        g_strdup_printf("FILE:%u: [network]: needs a [nic], whose ports it connects", line_of(text, "[network]"));
    CU_ASSERT(refused(text, unused));
    g_free(text);
    text = g_strconcat(gpu_text, host_text, NULL);
    g_autofree char *both =
        g_strdup_printf("FILE:%u: has both [gpu] and [host]: ranks run on one of them", line_of(text, "[host]"));
    CU_ASSERT(refused(text, both));
    g_free(text);
}

#define TIME  "a time from 0 to 10 s such as \"870 ns\" (ps, ns, us, ms)"
#define RATE  "a rate from 1 Mbit/s to 1000 TB/s such as \"45 GB/s\" (KB, MB, GB, TB/s, Mbit, Gbit, Tbit/s)"
#define SIZE  "a size up to 1000 GB such as \"64 KB\" (B, KB, KiB, MB, MiB, GB)"
#define COUNT "a whole number from 1 to 65535"

TEST("bad values")
{
    static const struct {
        const char *from, *key, *expected, *found[15];
    } bad[] = {
        { "poll = 220 ns",
          "[gpu] poll",
          TIME,
          { "220", "ns", "", "-1 ns", "nan ns", "inf us", "1e400 ns", "10001 ms", "220 GB/s", "220 ns 3", "2,2 us",
            "220 NS", "220 s", "\\" } },
        { "hbm-rate = 2800 GB/s",
          "[gpu] hbm-rate",
          RATE,
          { "0 GB/s", "2800 GB", "2800 Gb/s", "-5 GB/s", "0.9 Mbit/s", "1001 TB/s", "1e300 TB/s" } },
        { "sms = 132", "[gpu] sms", COUNT, { "0", "-132", "132.0", "65536", "99999999999999999999", "0x84" } },
        { "window = 1 MB", "[nic] window", SIZE, { "1", "-1 B", "1001 GB" } },
        { "header = 26 B", "[nic] header", "a size up to 4096 B such as \"26 B\" (B, KB, KiB)", { "4097 B" } },
        { "mtu = 4 KiB",
          "[nic] mtu",
          "a size from 64 to 65536 B such as \"4096 B\" (B, KB, KiB)",
          { "0 B", "65 KiB" } },
        { "posting = proxy", "[nic] posting", "one of gpu, proxy", { "cpu", "" } },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
        for (const char *const *found = bad[i].found; *found; found++) {
            g_autofree char *to = g_strndup(bad[i].from, strcspn(bad[i].from, " "));
            g_autofree char *line = g_strconcat(to, " = ", *found, NULL);
            g_autofree char *message =
                g_strdup_printf("FILE:LINE: %s: expected %s, found \"%s\"", bad[i].key, bad[i].expected, *found);
            CU_ASSERT(change_refused(bad[i].from, line, message));
        }
}

TEST("bad curves")
{
    static const char *const bad[] = {
        "",
        "200 ns",
        "200 ns at",
        "200 ns at 10",
        "at 10 B",
        "200 ns at 10 B,",
        "200 ns at 10 B 3",
        "11 s at 10 B",
        "200 ns at 1001 GB",
        "200 ns at 10 B, 300 ns at 10 B",
        "200 ns at 10 B, 300 ns at 9 B",
        "200 ns at 10 B, 199 ns at 11 B",
        "1 us at 1 B at 2 B",
        "-1 ns at 1 B",
    };
    g_auto(GStrv) parts =
        g_strsplit(host_text, "put = 200 ns at 0 B,450 ns at 1 KB , 450 ns at 2 KB, 2.2 us at 9000 B", 2);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *text = g_strconcat(parts[0], "put = ", bad[i], parts[1], NULL);
        g_autofree char *message = g_strdup_printf("FILE:%u: [host] put: expected times, not falling, at rising sizes "
                                                   "such as \"27 us at 1024 B, 130 us at 14336 B\", found \"%s\"",
                                                   line_of(text, "put ="), bad[i]);
        CU_ASSERT(refused(text, message));
    }
    g_autoptr(GString) many = g_string_new(NULL);
    for (int i = 0; i <= CLUSTER_CURVE_MAX; i++) {
        g_string_append_printf(many, "%s%d ns at %d B", i ? ", " : "", i, i);
        struct cluster_curve curve;
        CU_ASSERT_EQUAL(cluster_parse_curve(many->str, &curve), i < CLUSTER_CURVE_MAX);
    }
}

TEST("bad CPCs")
{
    static const char *const bad[] = { "",   "|",    "| 0",  "0 |",     "0 | | 1", "0-",       "-1",  "1-0",
                                       "32", "0-32", "x",    "0 x",     "0,1",     "/",        "0 /", "0 / 0 1",
                                       "2x", "0x 0", "0 2x", "2x 3x 0", "256x 0",  "0/0/0/0/0" };
    struct cluster_dies dies;
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) CU_ASSERT_FALSE(cluster_parse_cpcs(bad[i], &dies));
    CU_ASSERT(cluster_parse_cpcs("0-31 0-31 | 0-31 0-31", &dies) && dies.kind[0].pairs == CLUSTER_PAIRS_MAX);
    CU_ASSERT_FALSE(cluster_parse_cpcs("0-31 0-31 | 0-31 0-31 0", &dies));
    CU_ASSERT(cluster_parse_cpcs("2x 0 1 / 1 | 0/3 3", &dies) && dies.kinds == 3);
    static const uint8_t kind[] = { 0, 0, 1, 2, 0, 0, 1, 2 };
    for (uint32_t gpu = 0; gpu < 8; gpu++) CU_ASSERT_PTR_EQUAL(cluster_cpcs_of(&dies, gpu), &dies.kind[kind[gpu]]);
    CU_ASSERT(
        change_refused("sms = 132", "cpcs = 0 x\nsms = 132",
                       "FILE:LINE: [gpu] cpcs: expected numbers of CPCs below 32, of at most 128 pairs of SMs, "
                       "such as \"8 16 0-7 | 8-15\" or, two GPUs of three so, \"2x 0-7 / 0 0-6\", found \"0 x\""));
    g_autofree char *text =
        changed("sms = 132", "sms = 132\ncpcs = 0 1"); /* these keys belong to another GPU, whose file is included */
    g_autoptr(cluster) c = load(text);
    CU_ASSERT(c && !c->gpu.cpcs.kinds);
}

TEST("values at the limits")
{
    static const struct {
        const char *from, *to;
    } fine[] = {
        { "poll = 220 ns", "poll = 0 ps" },
        { "poll = 220 ns", "poll = 10000 ms" },
        { "poll = 220 ns", "poll = 1e2ns" },
        { "hbm-rate = 2800 GB/s", "hbm-rate = 1 Mbit/s" },
        { "hbm-rate = 2800 GB/s", "hbm-rate = 1000 TB/s" },
        { "sms = 132", "sms = 1" },
        { "sms = 132", "sms = 65535" },
        { "mtu = 4 KiB", "mtu = 64 B" },
        { "header = 26 B", "header = 0 B" },
        { "window = 1 MB", "window = 0 B" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(fine); i++) {
        g_autofree char *text = changed(fine[i].from, fine[i].to);
        cluster_free(load(text));
    }
}

TEST("shipped files")
{
    g_autoptr(GDir) shipped = MADE(g_dir_open("models/clusters", 0, NULL));
    uint32_t count = 0;
    for (const char *name; (name = g_dir_read_name(shipped)) != NULL; count++) {
        if (strcmp(name, "parts") == 0 || strcmp(name, "README.md") == 0) continue;
        CU_ASSERT(g_str_has_suffix(name, ".ini"));
        g_autofree char *bare = g_strndup(name, strlen(name) - 4), *full = g_strconcat("models/clusters/", name, NULL);
        const char *const ways[] = { full, name, bare }; /* three ways to include a file: by path, by name, by name
                                                          * without ending */
        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
            g_autoptr(GError) error = NULL;
            g_autoptr(cluster) c = cluster_load(ways[i], &error);
            if (error) printf("\n      %s\n", error->message);
            CU_ASSERT_PTR_NULL(error);
            CU_ASSERT(c && strcmp(c->path, full) == 0 && c->name && (c->gpu.sms || c->host.cores));
        }
    }
    CU_ASSERT(count >= 2);
}

/* A number in any unit becomes exactly its value in the smallest unit, rounded. */
TEST("units read back")
{
    static const struct {
        bool (*parse)(const char *, uint64_t *);
        const char *unit;
        uint64_t factor;
    } units[] = {
        { cluster_parse_time, "ps", 1 },
        { cluster_parse_time, "ns", 1000 },
        { cluster_parse_time, "us", 1000000 },
        { cluster_parse_time, "ms", 1000000000 },
        { text_size, "B", 1 },
        { text_size, "KB", 1000 },
        { text_size, "KiB", 1024 },
        { text_size, "MB", 1000000 },
        { text_size, "MiB", 1048576 },
        { text_size, "GB", 1000000000 },
        { cluster_parse_rate, "KB/s", 8000 },
        { cluster_parse_rate, "MB/s", 8000000 },
        { cluster_parse_rate, "GB/s", 8000000000 },
        { cluster_parse_rate, "TB/s", 8000000000000 },
        { cluster_parse_rate, "Mbit/s", 1000000 },
        { cluster_parse_rate, "Gbit/s", 1000000000 },
        { cluster_parse_rate, "Tbit/s", 1000000000000 },
    };
    struct rng rng = rng_seeded(7);
    for (uint32_t i = 0; i < 20000; i++) {
        const uint32_t u = (uint32_t)rng_below(&rng, G_N_ELEMENTS(units));
        const uint64_t whole = rng_below(&rng, 1000), milli = rng_below(&rng, 1000);
        char text[60], tail[70];
        g_snprintf(text, sizeof text, "%" G_GUINT64_FORMAT ".%03" G_GUINT64_FORMAT "%s%s", whole, milli,
                   i % 2 ? " " : "", units[u].unit);
        const unsigned __int128 thousandths = (unsigned __int128)(whole * 1000 + milli) * units[u].factor;
        const uint64_t expected = (uint64_t)((thousandths + 500) / 1000);
        uint64_t value = 0;
        CU_ASSERT_TRUE_FATAL(units[u].parse(text, &value));
        const uint64_t off = value > expected ? value - expected : expected - value;
        CU_ASSERT_TRUE_FATAL(off <= expected >> 50); /* a double is exact to about 2^-50 */
        g_snprintf(tail, sizeof tail, "%sx", text);
        CU_ASSERT_FALSE_FATAL(units[u].parse(tail, &value));
        g_snprintf(tail, sizeof tail, "-1%s", text);
        CU_ASSERT_FALSE_FATAL(units[u].parse(tail, &value));
    }
    uint64_t value = 1;
    CU_ASSERT(!cluster_parse_time("", &value) && !cluster_parse_time("ns", &value) && !cluster_parse_rate("1", &value));
    CU_ASSERT(!text_size("9.3e9 GB", &value)); /* beyond 63 bits */
    CU_ASSERT_EQUAL(value, 1);
}

/* Whatever a file contains, loading ends either with a cluster or with an error, never with both. */
TEST("scrambled files")
{
    struct rng rng = rng_seeded(11);
    g_autofree char *whole = g_strconcat(gpu_text, nic_text, NULL);
    const size_t length = strlen(whole);
    uint32_t loaded = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        g_autofree char *text = g_strdup(whole);
        for (uint64_t n = 1 + rng_below(&rng, 3); n; n--)
            text[rng_below(&rng, length)] = (char)(1 + rng_below(&rng, 255));
        g_autoptr(GError) error = NULL;
        g_autoptr(cluster) c = cluster_load(temporary_text("c.ini", text), &error);
        CU_ASSERT_FATAL(!c == (error != NULL));
        loaded += c != NULL;
    }
    CU_ASSERT(loaded > 10 && loaded < 1000);
}

/* Each key is listed once and explained in sentences. */
TEST("keys explained")
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const struct cluster_key *key;
    for (size_t i = 0; (key = cluster_key_at(i)); i++) {
        CU_ASSERT(g_hash_table_add(seen, g_strconcat(key->section, ".", key->name, NULL)));
        CU_ASSERT(strlen(key->meaning) > 10 && g_str_has_suffix(key->meaning, "."));
        CU_ASSERT(key->offset < sizeof(struct cluster));
    }
    CU_ASSERT(g_hash_table_size(seen) > 100);
}
