/* test_verbs.c - the verbs link.  It must keep the contract of models/fabric.h on real queue pairs.  Unsuitable
 * devices, limits and peers must give their errors.
 *
 * Method: threads make ranks, and one thread steps them.  Faults are planted by taking a peer's queue pairs away, by
 * limits of the process and by wrong options.  If there is no RDMA device, the program says so, and tests only the
 * refusals and the choice of devices (tests/vm/check-verbs runs it on a machine with devices).  EPTWIN_TEST_INTERFACE
 * names a network interface under the first device that may be taken down. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/support_catch.h"
#include "tests/support_conformance.h"
#include "tests/support_live.h"
#include "tests/unit.h"

static const struct fabric_needs few_needs = { 1 << 20, 64, 2, 16, 0, false };

static struct live_options options_for(const char *device, enum live_signalling signalling)
{
    struct live_options options = support_options("verbs", 8);
    options.device = device;
    options.signalling = signalling;
    options.nvlink_disabled = true;
    options.timeout_ms = 15000; /* far longer than the two seconds after which a dead peer is named */
    return options;
}

#ifdef HAVE_VERBS
#    include "replay/links/verbs.h"

static uint32_t device_count;

static void test_conformance(void)
{
    const enum live_signalling ways[] = { LIVE_SIGNAL_WRITE, LIVE_SIGNAL_ATOMIC, LIVE_SIGNAL_IMM };
    for (uint32_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        struct live_options options = options_for(NULL, ways[i]);
        support_worlds_conform(2, &options, CONFORMANCE_DEPTH, false, 1 + i);
        support_worlds_conform(8, &options, CONFORMANCE_DEPTH, false, 11 + i);
        options.nvlink_disabled = false;
        options.ranks_per_node = 2;
        support_worlds_conform(6, &options, 100, false, 21 + i);
    }
}

static char *first_device(void)
{
    struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
    g_auto(GStrv) names = verbs_nic_names(&options, 0, NULL);
    return g_strdup(names[0]);
}

/* All ranks share one device.  Then every rank has all devices. */
static void test_devices_shared(void)
{
    g_autofree char *first = first_device();
    struct live_options options = options_for(first, LIVE_SIGNAL_WRITE);
    support_worlds_conform(4, &options, 2, false, 31); /* the least depth with which puts with signals work */
    if (device_count >= 2) {
        int count;
        struct ibv_device **list = ibv_get_device_list(&count);
        g_autofree char *both =
            g_strdup_printf("%s+%s,%s", ibv_get_device_name(list[0]), ibv_get_device_name(list[1]), first);
        ibv_free_device_list(list);
        options.device = both;
        options.signalling = LIVE_SIGNAL_IMM;
        support_worlds_conform(4, &options, 5, false, 32);
        options.signalling = LIVE_SIGNAL_ATOMIC;
        support_worlds_conform(3, &options, 5, false, 33);
    }
}

/* ---- a link by itself ---------------------------------------------------------------------------------- */

enum { LINK_HEAP_BYTES = 1 << 20, LINK_WORDS = 8, LINK_WORDS_BYTES = 4096, LINK_DEPTH = 64 };

/* The links of two ranks over the test's own memory, so that only the links are tested. */
struct link_pair {
    struct live_options options;
    struct fabric_needs needs;
    struct live_memory memory[2];
    struct live_link *link[2];
    GError *error[2];
    struct bootstrap **b;
};

static bool link_make(struct bootstrap *b, void *context)
{
    struct link_pair *pair = context;
    bool remote[2] = { true, true };
    remote[b->rank] = false;
    pair->link[b->rank] =
        link_verbs_new(&pair->options, &pair->needs, b, &pair->memory[b->rank], remote, &pair->error[b->rank]);
    return pair->link[b->rank] != NULL;
}

static bool pair_open(struct link_pair *pair, const struct live_options *options)
{
    *pair = (struct link_pair){ .options = *options, .b = support_bootstraps_new(2) };
    pair->needs = (struct fabric_needs){ LINK_HEAP_BYTES, LINK_WORDS, 2, LINK_DEPTH, 0, false };
    for (uint32_t rank = 0; rank < 2; rank++) {
        pair->memory[rank].size_bytes = LINK_WORDS_BYTES + LINK_HEAP_BYTES;
        pair->memory[rank].base = aligned_alloc(4096, pair->memory[rank].size_bytes);
        memset(pair->memory[rank].base, 0, pair->memory[rank].size_bytes);
    }
    return support_bootstraps_run(pair->b, 2, link_make, pair) == 0;
}

static void pair_close(struct link_pair *pair)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        if (pair->link[rank]) pair->link[rank]->ops->free(pair->link[rank]);
        free(pair->memory[rank].base);
        g_clear_error(&pair->error[rank]);
    }
    support_bootstraps_free(pair->b, 2);
}

/* Polls both ends until done() or until the seconds have passed.  Returns rank 0's last error, or -EAGAIN. */
static int pair_poll(struct link_pair *pair, double seconds, int (*done)(struct link_pair *pair))
{
    const gint64 end_us = g_get_monotonic_time() + (gint64)(seconds * G_USEC_PER_SEC);
    int rc = -EAGAIN;
    while (rc == -EAGAIN && g_get_monotonic_time() < end_us) {
        const int moved = pair->link[0]->ops->progress(pair->link[0]);
        if (pair->link[1]) (void)pair->link[1]->ops->progress(pair->link[1]);
        rc = moved < 0 ? moved : done(pair);
    }
    return rc;
}

/* Posts a put of rank 0 to rank 1. */
static int pair_put(struct link_pair *pair, uint16_t queue, uint64_t source, uint64_t target, uint32_t size_bytes,
                    bool defer)
{
    const struct live_put put = {
        .source = source, .target = target, .size_bytes = size_bytes, .peer = 1, .queue = queue, .defer = defer
    };
    return pair->link[0]->ops->put(pair->link[0], &put);
}

static int pair_flushed(struct link_pair *pair) { return pair->link[0]->ops->flush(pair->link[0], 1, 0); }

/* Deferred puts are held back until the queue is full or the doorbell is rung.  No put may be lost.  A flush that
 * returns 0 means that all have arrived. */
static void test_deferred(void)
{
    struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
    struct link_pair pair;
    CU_ASSERT_TRUE_FATAL(pair_open(&pair, &options));
    uint8_t *heap = pair.memory[0].base + LINK_WORDS_BYTES;
    for (uint32_t i = 0; i < LINK_HEAP_BYTES; i++) heap[i] = (uint8_t)(i * 7 + i / 251);
    for (uint32_t i = 0; i < 1024; i++) {
        const uint64_t offset = LINK_WORDS_BYTES + i * 1024;
        int rc;
        do rc = pair_put(&pair, 0, offset, offset, 1024, true);
        while (rc == -EAGAIN);
        CU_ASSERT_EQUAL_FATAL(rc, 0);
    }
    CU_ASSERT_EQUAL(pair_poll(&pair, 20, pair_flushed), 0);
    CU_ASSERT_EQUAL(memcmp(heap, pair.memory[1].base + LINK_WORDS_BYTES, LINK_HEAP_BYTES), 0);
    /* A single deferred put is not sent before the doorbell.  Nothing was posted, so nothing can complete. */
    memset(pair.memory[1].base + LINK_WORDS_BYTES, 0, 64);
    CU_ASSERT_EQUAL(pair_put(&pair, 1, LINK_WORDS_BYTES, LINK_WORDS_BYTES, 64, true), 0);
    usleep(50000);
    CU_ASSERT_EQUAL(pair.memory[1].base[LINK_WORDS_BYTES + 1], 0);
    CU_ASSERT_EQUAL(pair.link[0]->ops->signal(pair.link[0], 1, 1, 8, 42, false), 0);
    const uint64_t *word = (const uint64_t *)(const void *)pair.memory[1].base;
    for (uint32_t i = 0; i < 2000 && __atomic_load_n(&word[1], __ATOMIC_ACQUIRE) != 42; i++) usleep(1000);
    CU_ASSERT_EQUAL(word[1], 42);
    CU_ASSERT_EQUAL(pair.memory[1].base[LINK_WORDS_BYTES + 1], pair.memory[0].base[LINK_WORDS_BYTES + 1]);
    pair_close(&pair);
}

/* Rank 0 sends far more signals than a ring has slots, and the receiver polls only now and then.  The word must only
 * rise. */
static void test_signals_many(enum live_signalling signalling)
{
    enum { SIGNALS = 3000 };
    struct live_options options = options_for(NULL, signalling);
    struct link_pair pair;
    CU_ASSERT_TRUE_FATAL(pair_open(&pair, &options));
    const uint64_t *word = (const uint64_t *)(const void *)pair.memory[1].base;
    uint64_t seen = 0, sent = 0;
    const gint64 end_us = g_get_monotonic_time() + 60 * G_USEC_PER_SEC;
    while (seen < SIGNALS * 5 && g_get_monotonic_time() < end_us) {
        while (sent < SIGNALS) {
            const int rc = pair.link[0]->ops->signal(pair.link[0], 1, 0, 3 * 8, (sent + 1) * 5, false);
            if (rc == -EAGAIN) break;
            CU_ASSERT_EQUAL_FATAL(rc, 0);
            sent++;
        }
        CU_ASSERT_FATAL(pair.link[0]->ops->progress(pair.link[0]) >= 0);
        CU_ASSERT_FATAL(pair.link[1]->ops->progress(pair.link[1]) >= 0);
        const uint64_t now = __atomic_load_n(&word[3], __ATOMIC_ACQUIRE);
        CU_ASSERT_FATAL(now >= seen && now % 5 == 0 && now <= sent * 5);
        seen = now;
    }
    CU_ASSERT_EQUAL(seen, SIGNALS * 5);
    pair_close(&pair);
}

static void test_signals(void)
{
    test_signals_many(LIVE_SIGNAL_WRITE);
    test_signals_many(LIVE_SIGNAL_ATOMIC);
    test_signals_many(LIVE_SIGNAL_IMM);
}

/* ---- faults -------------------------------------------------------------------------------------------- */

static int pair_writes(struct link_pair *pair)
{
    return pair_put(pair, 0, LINK_WORDS_BYTES, LINK_WORDS_BYTES, 4096, false);
}

static int pair_keeps_writing(struct link_pair *pair)
{
    const int rc = pair_writes(pair);
    return rc == 0 ? -EAGAIN : rc;
}

/* The peer's queue pairs disappear, as if its process were killed. */
static void test_peer_gone(void)
{
    struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
    struct link_pair pair;
    CU_ASSERT_TRUE_FATAL(pair_open(&pair, &options));
    pair.link[1]->ops->free(pair.link[1]);
    pair.link[1] = NULL;
    /* No request completes any more.  The queue takes as many requests as its depth, then refuses. */
    for (uint32_t i = 0; i < LINK_DEPTH; i++) CU_ASSERT_EQUAL(pair_writes(&pair), 0);
    CU_ASSERT_EQUAL(pair_writes(&pair), -EAGAIN);
    CU_ASSERT_EQUAL(pair.link[0]->ops->signal(pair.link[0], 1, 0, 0, 1, false), -EAGAIN);
    const int rc = pair_poll(&pair, 30, pair_keeps_writing);
    CU_ASSERT(rc < 0 && rc != -EAGAIN);
    printf("\n      %s\n", pair.link[0]->failure);
    ASSERT_CONTAINS(pair.link[0]->failure, "peer 1: QP ");
    ASSERT_CONTAINS(pair.link[0]->failure,
                    " in state ERR: transport retry counter exceeded (no answer to 7 tries in 1.");
    CU_ASSERT_EQUAL(pair.link[0]->ops->signal(pair.link[0], 1, 0, 0, 1, false), rc);
    pair_close(&pair);
}

static int pair_waits(struct link_pair *pair)
{
    (void)pair;
    return -EAGAIN;
}

/* A rank that posts nothing must also learn that its peer is gone.  The rank's probes do not count as progress. */
static void test_peer_gone_idle(void)
{
    struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
    struct link_pair pair;
    CU_ASSERT_TRUE_FATAL(pair_open(&pair, &options));
    /* The last of these signals asks for no completion, so no request in flight would report the error. */
    for (uint64_t i = 1; i <= 3; i++) CU_ASSERT_EQUAL(pair.link[0]->ops->signal(pair.link[0], 1, 0, 0, i, false), 0);
    (void)pair_poll(&pair, 0.5, pair_waits);
    const gint64 end_us = g_get_monotonic_time() + 3 * G_USEC_PER_SEC;
    int moved = 0;
    while (moved == 0 && g_get_monotonic_time() < end_us) moved = pair.link[0]->ops->progress(pair.link[0]);
    CU_ASSERT_EQUAL_FATAL(moved, 0);
    pair.link[1]->ops->free(pair.link[1]);
    pair.link[1] = NULL;
    const int rc = pair_poll(&pair, 30, pair_waits);
    CU_ASSERT(rc < 0 && rc != -EAGAIN);
    ASSERT_CONTAINS(pair.link[0]->failure, "peer 1: QP ");
    pair_close(&pair);
}

/* A write outside the peer's registration must be refused by the peer, and the error must say so. */
static void test_access_refused(void)
{
    struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
    struct link_pair pair;
    CU_ASSERT_TRUE_FATAL(pair_open(&pair, &options));
    const uint64_t end = LINK_WORDS_BYTES + LINK_HEAP_BYTES;
    CU_ASSERT_EQUAL(pair_put(&pair, 0, LINK_WORDS_BYTES, end - 64, 4096, false), 0);
    const int rc = pair_poll(&pair, 30, pair_flushed);
    CU_ASSERT(rc < 0 && rc != -EAGAIN);
    printf("\n      %s\n", pair.link[0]->failure);
    ASSERT_CONTAINS(pair.link[0]->failure, "remote access error");
    pair_close(&pair);
}

/* Asserts that a device is refused with options that the last argument changes. */
#    define REFUSED(device, part, change) \
        do { \
            struct live_options options = options_for(device, LIVE_SIGNAL_WRITE); \
            change; \
            support_worlds_refused(&options, &few_needs, part); \
        } while (0)

static void test_options_refused(void)
{
    g_autofree char *first = first_device(), *uneven = g_strdup_printf("%s,nothere", first);
    REFUSED("nothere", "found 'nothere'", (void)0);
    REFUSED(first, "expected port 1 to ", options.port = 9);
    REFUSED(first, "found --gid-index 200", options.gid_index = 200);
    REFUSED(first, "sl: expected 0 to 15, found 16", options.service_level = 16);
    REFUSED(first, "GPU memory", options.gpu_memory = true);
    /* Only one rank has a fault.  The other must learn which rank it is, and why it failed. */
    REFUSED(uneven, "found 'nothere'", (void)0);
}

/* Runs in a child that is not root, because limits of locked memory do not bind root. */
static void test_memlock(void)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = { 1 << 16, 1 << 16 };
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (getuid() == 0 && setuid(65534) != 0)) _exit(3);
        struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
        struct link_pair pair;
        if (pair_open(&pair, &options)) _exit(4);
        printf("\n      %s\n", pair.error[0]->message);
        fflush(stdout);
        _exit(strstr(pair.error[0]->message, "the limit of locked memory is 0.06 MiB; raise it (ulimit -l") ? 0 : 5);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_link_down(void)
{
    const char *interface = getenv("EPTWIN_TEST_INTERFACE");
    if (!interface) {
        printf(" (no EPTWIN_TEST_INTERFACE: not tested) ");
        return;
    }
    g_autofree char *first = first_device();
    struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
    struct link_pair pair;
    CU_ASSERT_TRUE_FATAL(pair_open(&pair, &options));
    g_autofree char *down = g_strdup_printf("ip link set %s down", interface);
    CU_ASSERT_EQUAL(system(down), 0);
    const int rc = pair_poll(&pair, 30, pair_keeps_writing);
    CU_ASSERT(rc < 0 && rc != -EAGAIN);
    printf("\n      %s\n", pair.link[0]->failure);
    g_autofree char *expected = g_strdup_printf("device %s port 1 ", first);
    ASSERT_CONTAINS(pair.link[0]->failure, expected);
    ASSERT_CONTAINS(pair.link[0]->failure, "down");
    pair_close(&pair);
    REFUSED(first, "expected an active port, found state down", (void)0);
}

/* ---- what needs no device ------------------------------------------------------------------------------ */

static void expect_names(const char *device, uint32_t local_rank, const char *expected)
{
    const struct live_options options = options_for(device, LIVE_SIGNAL_WRITE);
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) names = verbs_nic_names(&options, local_rank, &error);
    g_autofree char *text = names ? g_strjoinv("+", names) : g_strdup(error->message);
    if (!g_str_has_prefix(text, expected)) printf("\n      expected \"%s\", found \"%s\"\n", expected, text);
    CU_ASSERT_TRUE(g_str_has_prefix(text, expected));
    CU_ASSERT_EQUAL(names != NULL, error == NULL);
}

static void test_names(void)
{
    expect_names("a", 0, "a");
    expect_names("a", 5, "a");
    expect_names("a,b,c", 1, "b");
    expect_names("a,b,c", 5, "c");
    expect_names("a+b,c+d", 0, "a+b");
    expect_names("a+b,c+d", 3, "c+d");
    expect_names("a,", 1, "device: expected names as \"a,b\"");
    expect_names("a+", 0, "device: expected names as \"a,b\"");
    expect_names("a+b+c+d+e", 0, "device: expected names as \"a,b\"");
}

static void test_timeouts(void)
{
    static const struct {
        uint32_t timeout_ms;
        uint8_t hardware, soft;
    } expected[] = {
        { 3600000, 18, 24 }, { 120000, 18, 19 }, { 60000, 18, 18 }, { 30000, 17, 17 }, { 5000, 15, 15 }, { 1, 12, 12 },
    };
    struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
    const struct verbs_nic hardware = { .device_attr.vendor_id = 0x2c9 }, soft = { .device_attr.vendor_id = 0xffffff };
    for (uint32_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        options.timeout_ms = expected[i].timeout_ms;
        CU_ASSERT_EQUAL(verbs_timeout_exponent(&hardware, &options), expected[i].hardware);
        CU_ASSERT_EQUAL(verbs_timeout_exponent(&soft, &options), expected[i].soft);
    }
}
#endif

/* Without a device, or in a build without libibverbs, the error is one line that says what to do. */
static void test_no_device(void)
{
    const struct live_options options = options_for(NULL, LIVE_SIGNAL_WRITE);
#ifdef HAVE_VERBS
    support_worlds_refused(&options, &few_needs, "expected an RDMA device with an active port, found: none");
#else
    support_worlds_refused(&options, &few_needs, "built without libibverbs");
#endif
}

void unit_tests(CU_pSuite suite)
{
#ifdef HAVE_VERBS
    CU_add_test(suite, "devices are dealt out by local rank", test_names);
    CU_add_test(suite, "timeouts end before the world's", test_timeouts);
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (device_count = 0; list && list[device_count];) device_count++;
    if (list) ibv_free_device_list(list);
    if (device_count) {
        CU_add_test(suite, "conformance, three ways to signal", test_conformance);
        CU_add_test(suite, "conformance, shared and several devices", test_devices_shared);
        CU_add_test(suite, "deferred puts", test_deferred);
        CU_add_test(suite, "many signals", test_signals);
        CU_add_test(suite, "peer gone", test_peer_gone);
        CU_add_test(suite, "peer of an idle rank gone", test_peer_gone_idle);
        CU_add_test(suite, "access refused", test_access_refused);
        CU_add_test(suite, "options refused", test_options_refused);
        CU_add_test(suite, "limit of locked memory", test_memlock);
        CU_add_test(suite, "link down", test_link_down);
        return;
    }
#endif
    printf("no RDMA device on this machine: the verbs link cannot run here (see make check-verbs)\n");
    CU_add_test(suite, "refusal without a device", test_no_device);
}
