/* test_ofi.c - the libfabric link.  It must keep the contract of models/fabric.h over every provider that this machine
 * has, in one process and across processes.  Unsuitable providers and faulty peers must give their errors.
 *
 * Method: the conformance suite, and links by themselves over the test's own memory.  Providers that the machine lacks
 * are named and left out, but tcp must exist.  EPTWIN_TEST_PROVIDERS names other providers to try ("verbs,efa"). */
#include "replay/bootstrap/bootstrap_internal.h"
#include "replay/live.h"
#include "tests/support_bootstrap.h"
#include "tests/support_catch.h"
#include "tests/support_conformance.h"
#include "tests/support_live.h"
#include "tests/support_ofi_late.h"
#include "tests/unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct live_options options_for(const char *provider, enum live_signalling signalling)
{
    struct live_options options = support_options("ofi", 8);
    options.provider = provider;
    options.signalling = signalling;
    options.nvlink_disabled = true;
    options.timeout_ms = 20000;
    return options;
}

#ifdef HAVE_OFI
#    include "replay/links/ofi.h"

/* --- the conformance suite --- */

static void run_suite(uint32_t rank_count, const struct live_options *options, uint64_t seed)
{
    support_worlds_conform(rank_count, options, CONFORMANCE_DEPTH, true, seed);
}

static bool provider_exists(const char *provider)
{
    const struct ofi_library *const library = ofi_library_load(NULL);
    struct fi_info *const hints = library->dupinfo(NULL), *list = NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->fabric_attr->prov_name = strdup(provider);
    const bool exists = library->getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &list) == 0;
    if (list) library->freeinfo(list);
    library->freeinfo(hints);
    if (!exists) printf("(no provider %s) ", provider);
    return exists;
}

/* PSM's library catches signals as soon as it is loaded.  That happens here, in the first test. */
TEST("signals are handled as before")
{
    static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM };
    struct sigaction before[G_N_ELEMENTS(signals)], after;
    sigset_t held;
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) sigaction(signals[i], NULL, &before[i]);
    CU_ASSERT_PTR_NOT_NULL(ofi_library_load(NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
        CU_ASSERT_EQUAL(sigaction(signals[i], NULL, &after), 0);
        CU_ASSERT(after.sa_handler == before[i].sa_handler);
    }
    CU_ASSERT_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &held), 0);
    CU_ASSERT_EQUAL(sigisemptyset(&held), 1);
}

static void run_provider(const char *provider, uint64_t seed)
{
    static const enum live_signalling ways[] = { LIVE_SIGNAL_WRITE, LIVE_SIGNAL_ATOMIC, LIVE_SIGNAL_IMM };
    if (!provider_exists(provider)) return;
    for (uint32_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        struct live_options options = options_for(provider, ways[i]);
        run_suite(2, &options, seed + i);
        run_suite(7, &options, seed + 10 + i);
        options.nvlink_disabled = false;
        options.ranks_per_node = 2;
        run_suite(5, &options, seed + 20 + i);
    }
}

TEST("conformance over tcp")
{
    CU_ASSERT_TRUE(provider_exists("tcp"));
    run_provider("tcp", 1);
}

/* libfabric may deliver late and out of order, and complete early.  The providers on this machine do not, so a wrapper
 * does. */
TEST("conformance of a late provider")
{
    static const enum live_signalling ways[] = { LIVE_SIGNAL_WRITE, LIVE_SIGNAL_ATOMIC, LIVE_SIGNAL_IMM };
    for (uint64_t seed = 0; seed < 2; seed++)
        for (uint32_t i = 0; i < 2 * G_N_ELEMENTS(ways); i++) {
            const bool ordered = i % 2;
            const struct live_options options = options_for("tcp", ways[i / 2]);
            ofi_late_begin(ordered, seed);
            run_suite(seed ? 3 : 2, &options, 400 + 10 * seed + i);
            const struct ofi_late_counts counts = ofi_late_end();
            CU_ASSERT_EQUAL(counts.overtaken > 0, !ordered);
            CU_ASSERT(counts.early > 0);
        }
}

TEST("conformance over shm") { run_provider("shm", 101); }

/* The sockets provider is slow, and libfabric keeps it for tests only.  It adds a progress thread.  The child process
 * ends before LeakSanitizer checks it, because the provider never frees memory that it takes when the pool of receives
 * is used up (sock_rx_new_entry()). */
TEST("conformance over sockets")
{
    const struct live_options options = options_for("sockets", LIVE_SIGNAL_ATOMIC);
    if (!provider_exists("sockets")) return;
    fflush(stdout);
    const pid_t child = fork();
    int status = 0;
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        const unsigned failures = CU_get_number_of_failures();
        run_suite(2, &options, 201);
        fflush(stdout);
        _exit(CU_get_number_of_failures() != failures);
    }
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST("conformance over others")
{
    const char *const names = g_getenv("EPTWIN_TEST_PROVIDERS");
    g_auto(GStrv) name = g_strsplit(names ? names : "", ",", 0);
    for (int i = 0; name[i]; i++) run_provider(name[i], 301);
}

/* Each rank is a process of its own, so no other rank steps its link. */
TEST("conformance across processes")
{
    static const char *const providers[] = { "tcp", "shm" };
    for (size_t k = 0; k < G_N_ELEMENTS(providers); k++) {
        if (!provider_exists(providers[k])) continue;
        for (int way = LIVE_SIGNAL_WRITE; way <= LIVE_SIGNAL_IMM; way++) {
            struct support_process_case c = { options_for(providers[k], (enum live_signalling)way), -1, 77 };
            CU_ASSERT_EQUAL(bootstrap_fork_run(4, 60000, support_process_conforms, &c), 0);
        }
    }
}

/* --- links by themselves --- */

enum { LINK_BYTES = 1 << 20, LINK_DEPTH = 4, LINK_PUT_BYTES = 64 << 10 };

/* Makes a link between two ranks in two processes, over its own memory.  If that fails, prints the reason and returns
 * NULL.  If both ranks succeed, neither returns before the other has a link. */
static struct live_link *link_open(struct bootstrap *b, const struct live_options *options, struct live_memory *memory)
{
    const struct fabric_needs needs = { LINK_BYTES / 2, 8, 1, LINK_DEPTH, 0, false };
    const bool remote[2] = { b->rank != 0, b->rank != 1 };
    g_autoptr(GError) error = NULL;
    memory->size_bytes = LINK_BYTES;
    memory->base = mmap(NULL, LINK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct live_link *const link = link_ofi_new(options, &needs, b, memory, remote, &error);
    if (link) bootstrap_barrier(b, &error);
    if (error) fprintf(stderr, "%s\n", error->message);
    return link;
}

static int flush_until(struct live_link *link, uint64_t deadline_ms)
{
    int rc;
    while ((rc = link->ops->flush(link, 1, 0)) == -EAGAIN && bootstrap_now_ms() < deadline_ms)
        if (link->ops->progress(link) < 0) return -EIO;
    return rc;
}

struct stopped {
    struct live_options options;
    int to_writer[2], to_target[2];
};

/* The target does not serve its link, so nothing can have been delivered.  flush() must not claim that anything was. */
static int rank_flushes(struct bootstrap *b, void *context)
{
    struct stopped *const s = context;
    struct live_memory memory;
    struct live_link *const link = link_open(b, &s->options, &memory);
    char byte = 0;
    if (!link) return 1;
    uint64_t *const words = (uint64_t *)(void *)memory.base;
    if (b->rank == 1) {
        if (read(s->to_target[0], &byte, 1) != 1 || words[3] != 0) return 2;
        while (__atomic_load_n(&words[3], __ATOMIC_ACQUIRE) != 5)
            if (link->ops->progress(link) < 0) return 3;
        if (memory.base[LINK_BYTES - 1] != 0xa5) return 4;
        while (poll(&(struct pollfd){ .fd = s->to_target[0], .events = POLLIN }, 1, 0) == 0)
            if (link->ops->progress(link) < 0) return 5;
        link->ops->free(link);
        return 0;
    }
    memset(memory.base + LINK_PUT_BYTES, 0xa5, LINK_PUT_BYTES);
    const struct live_put put = {
        .source = LINK_PUT_BYTES, .target = LINK_BYTES - LINK_PUT_BYTES, .size_bytes = LINK_PUT_BYTES, .peer = 1
    };
    if (link->ops->put(link, &put) != 0) return 6;
    if (link->ops->signal(link, 1, 0, 3 * sizeof(uint64_t), 5, false) != 0) return 7;
    if (flush_until(link, bootstrap_now_ms() + 300) != -EAGAIN) return 8;
    if (write(s->to_target[1], &byte, 1) != 1) return 9;
    if (flush_until(link, bootstrap_now_ms() + 20000) != 0) return 10;
    if (write(s->to_target[1], &byte, 1) != 1) return 11;
    link->ops->free(link);
    return 0;
}

TEST("flush means delivered")
{
    for (int way = LIVE_SIGNAL_WRITE; way <= LIVE_SIGNAL_IMM; way++) {
        struct stopped s = { .options = options_for("tcp", (enum live_signalling)way) };
        CU_ASSERT_EQUAL_FATAL(pipe(s.to_target), 0);
        CU_ASSERT_EQUAL(bootstrap_fork_run(2, 20000, rank_flushes, &s), 0);
        close(s.to_target[0]);
        close(s.to_target[1]);
    }
}

/* Rank 1 is killed.  Rank 0 goes on writing until its link reports what broke. */
static int rank_writes_to_dead(struct bootstrap *b, void *context)
{
    struct live_memory memory;
    struct live_link *const link = link_open(b, context, &memory);
    if (!link) return 1;
    if (b->rank == 1) {
        bootstrap_abort(b, ""); /* makes the parent stop watching, so that rank 0 has time to notice */
        raise(SIGKILL);
    }
    for (int rc = 0; rc >= 0;) {
        rc = link->ops->put(link, &(struct live_put){ .size_bytes = LINK_PUT_BYTES, .peer = 1 });
        if (rc == -EAGAIN) rc = 0;
        const int progressed = link->ops->progress(link);
        if (progressed < 0) rc = progressed;
    }
    fprintf(stderr, "[%s]\n", link->failure);
    const int again = link->ops->put(link, &(struct live_put){ .size_bytes = 8, .peer = 1 });
    link->ops->free(link);
    return again < 0 && again != -EAGAIN ? 5 : 6;
}

TEST("a dead peer is named")
{
    for (int way = LIVE_SIGNAL_WRITE; way <= LIVE_SIGNAL_IMM; way++) {
        struct live_options options = options_for("tcp", (enum live_signalling)way);
        fork_says(2, 20000, rank_writes_to_dead, &options, 1, "[libfabric tcp;ofi_rxm: write to rank 1 (queue 0): ");
    }
}

/* Rank 1's timeout is too short to connect. */
static int rank_impatient(struct bootstrap *b, void *context)
{
    struct live_options options = *(const struct live_options *)context;
    const struct fabric_needs needs = CONFORMANCE_NEEDS;
    g_autoptr(GError) error = NULL;
    if (b->rank == 1) options.timeout_ms = 0;
    struct live_world *const world = live_world_new(&options, &needs, b, &error);
    live_world_free(world);
    return world ? 1 : 3;
}

/* A rank that fails alone ends all ranks at once, and the error names it. */
TEST("one that cannot connect")
{
    struct live_options options = options_for("tcp", LIVE_SIGNAL_WRITE);
    fork_says(3, 60000, rank_impatient, &options, 1,
              "rank 1 gave up: libfabric tcp;ofi_rxm: no connection with ranks 0 and 2 within 0 ms");
}

TEST("refusals")
{
    static const struct fabric_needs needs = { 1 << 16, 8, 1, 4, 0, false };
    struct live_options options = options_for("warp", LIVE_SIGNAL_WRITE);
    support_worlds_refused(&options, &needs, "libfabric: expected provider warp with RMA, found ");
    options = options_for("tcp", LIVE_SIGNAL_ATOMIC);
    options.device = "nowhere";
    support_worlds_refused(&options, &needs,
                           "libfabric: expected provider tcp on nowhere with RMA and atomics, found ");
}

enum { PLACE_BYTES = 128 }; /* the size of a rank's part in the first exchange, which tells where ranks run */

/* Rank 1 sends zeros instead of its address.  The number of bytes is right or wrong. */
static int rank_never_connects(struct bootstrap *b, void *context)
{
    struct live_memory memory;
    if (b->rank == 1) {
        uint8_t card[4096], cards[2 * 4096];
        const size_t size_bytes = *(const size_t *)context;
        memset(card, 0, sizeof card);
        if (!bootstrap_allgather(b, card, PLACE_BYTES, cards, NULL)) return 1;
        return bootstrap_allgather(b, card, size_bytes, cards, NULL) && bootstrap_barrier(b, NULL) ? pause() : 1;
    }
    const struct live_options options = options_for("tcp", LIVE_SIGNAL_WRITE);
    return link_open(b, &options, &memory) ? 0 : 3;
}

/* An address of 8 bytes has the wrong size.  In an address of the right size, zeros are an empty name of a provider. */
TEST("another provider")
{
    size_t size_bytes = 8;
    g_autofree char *text = fork_text(2, 20000, rank_never_connects, &size_bytes, 1);
    ASSERT_CONTAINS(text, "exchange 1: rank 1 brought 8 bytes, rank 0 ");
    size_bytes = (size_t)strtoul(strstr(text, "rank 0 ") + 7, NULL, 10);
    fork_says(2, 20000, rank_never_connects, &size_bytes, 3,
              "libfabric: rank 1 uses , this one tcp;ofi_rxm: name a --provider");
}

/* A rank dies during an exchange while links are made, or after that.  It must leave no name of shared memory behind,
 * and the other rank must learn of its death. */
struct doomed {
    struct bootstrap base;
    struct bootstrap *inner;
    uint32_t left; /* exchanges that rank 1 completes before it dies */
    int signal;
};

static bool doomed_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct doomed *const d = (struct doomed *)b;
    if (b->rank == 1 && d->left-- == 0) raise(d->signal);
    return bootstrap_allgather(d->inner, in, size_bytes, out, error);
}

static bool doomed_check(struct bootstrap *b, GError **error)
{
    return bootstrap_check(((struct doomed *)b)->inner, error);
}

static const struct bootstrap_ops doomed_ops = { .name = "doomed",
                                                 .allgather = doomed_allgather,
                                                 .check = doomed_check };

static int rank_is_doomed(struct bootstrap *b, void *context)
{
    struct doomed d = *(const struct doomed *)context;
    const struct live_options options = options_for("shm", LIVE_SIGNAL_WRITE);
    struct live_memory memory;
    d.base = (struct bootstrap){
        .ops = &doomed_ops, .rank = b->rank, .rank_count = b->rank_count, .timeout_ms = b->timeout_ms
    };
    d.inner = b;
    struct live_link *const link = link_open(&d.base, &options, &memory);
    if (link) link->ops->free(link);
    return link ? 0 : 3;
}

/* Returns the set of names of eptwin's objects in /dev/shm. */
static GHashTable *shared_names(void)
{
    GHashTable *const names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GDir) folder = g_dir_open("/dev/shm", 0, NULL);
    for (const char *name; folder && (name = g_dir_read_name(folder));)
        if (g_str_has_prefix(name, "eptwin-")) g_hash_table_add(names, g_strdup(name));
    return names;
}

/* Returns the number of names that did not exist before.  Other runs on this machine remove their names once their
 * ranks have connected.  So this waits up to 5 seconds until there are none, and counts those of the last look. */
static uint32_t names_left(GHashTable *before)
{
    uint32_t left = 1;
    for (uint32_t tries = 0; left && tries < 50; tries++) {
        g_autoptr(GHashTable) now = shared_names();
        GHashTableIter each;
        gpointer name;
        left = 0;
        g_hash_table_iter_init(&each, now);
        while (g_hash_table_iter_next(&each, &name, NULL)) left += !g_hash_table_contains(before, name);
        if (left) g_usleep(100 * 1000);
    }
    return left;
}

TEST("no names left behind")
{
    enum { EXCHANGES = 4 }; /* the exchanges of places, of addresses, of "connected", and the test's own */
    static const int signals[] = { SIGKILL, SIGSTOP };
    if (!provider_exists("shm")) return;
    for (size_t k = 0; k < G_N_ELEMENTS(signals); k++)
        for (uint32_t left = 0; left < EXCHANGES; left++) {
            struct doomed d = { .left = left, .signal = signals[k] };
            g_autoptr(GHashTable) before = shared_names();
            catch_start();
            const int status = bootstrap_fork_run(2, 1000, rank_is_doomed, &d);
            g_autofree char *text = catch_end();
            CU_ASSERT(status == 1 || status == 3);
            ASSERT_CONTAINS(text, signals[k] == SIGKILL ? "eptwin: rank 1 was killed by signal 9"
                                                        : "eptwin: rank 1 did not come to exchange ");
            CU_ASSERT_EQUAL(names_left(before), 0);
        }
}

/* --- strangers at the port --- */

enum { WORD = 3, LIES = 7, EMPTY = 255 }; /* the last of the EMPTY messages arrives in signal 5's buffer */

/* What the stranger knows: the address of rank 0, and the token of rank 1.  With the token, each lie has exactly one
 * error. */
struct known {
    struct ofi_card card;
    uint8_t token[OFI_TOKEN_BYTES];
};

struct tapped {
    struct bootstrap base;
    struct bootstrap *inner;
    struct known known;
    int to_stranger[2], from_stranger[2];
};

static bool tapped_allgather(struct bootstrap *b, const void *in, size_t size_bytes, void *out, GError **error)
{
    struct tapped *const t = (struct tapped *)b;
    if (!bootstrap_allgather(t->inner, in, size_bytes, out, error)) return false;
    if (size_bytes == sizeof t->known.card) memcpy(&t->known.card, out, sizeof t->known.card);
    if (size_bytes == PLACE_BYTES) /* the token is at the end of rank 1's part */
        memcpy(t->known.token, (uint8_t *)out + 2 * PLACE_BYTES - OFI_TOKEN_BYTES, OFI_TOKEN_BYTES);
    return true;
}

static const struct bootstrap_ops tapped_ops = { .name = "tapped", .allgather = tapped_allgather };

static bool stranger_send(struct ofi_port *p, const void *message, size_t size_bytes, fi_addr_t to)
{
    struct fi_cq_msg_entry done;
    ssize_t rc;
    memcpy(p->arena, message, size_bytes);
    while ((rc = fi_send(p->ep, p->arena, size_bytes, fi_mr_desc(p->arena_mr), to, NULL)) == -FI_EAGAIN)
        (void)!fi_cq_read(p->cq, &done, 1);
    while (rc == 0 && (rc = fi_cq_read(p->cq, &done, 1)) == -FI_EAGAIN) rc = 0;
    return rc == 1;
}

/* Sends each lie, and returns how many were sent.  The lie that is too long comes last, because some providers then end
 * the connection. */
static int stranger_main(const struct tapped *t)
{
    struct bootstrap alone = { .rank = 0, .rank_count = 2 };
    uint8_t tokens[2][OFI_TOKEN_BYTES] = { { 0 } };
    const struct ofi_place place = { .one_host = true, .token = tokens };
    const struct live_options options = options_for("tcp", LIVE_SIGNAL_IMM);
    const struct fabric_needs needs = { LINK_BYTES / 2, 8, 1, LINK_DEPTH, 0, false };
    static uint8_t bytes[LINK_BYTES];
    const struct live_memory memory = { .base = bytes, .size_bytes = sizeof bytes };
    struct ofi_port port = { 0 };
    struct known known;
    fi_addr_t to;
    int sent = 0;
    if (read(t->to_stranger[0], &known, sizeof known) != sizeof known) return -1;
    if (!ofi_port_open(&port, &options, &needs, &place, &alone, &memory, NULL)) return -2;
    if (fi_av_insert(port.av, known.card.name, 1, &to, 0, NULL) != 1) return -3;
    const struct ofi_message honest = { .value = 666, .word = WORD, .rank = 1 };
    struct ofi_message lie[LIES + 1] = { honest, honest, honest, honest, honest, honest, honest, honest };
    size_t size_bytes[LIES] = { sizeof *lie, sizeof *lie,     sizeof *lie,    sizeof *lie,
                                sizeof *lie, sizeof *lie - 1, sizeof *lie + 8 };
    for (int i = 0; i <= LIES; i++) memcpy(lie[i].token, known.token, OFI_TOKEN_BYTES);
    lie[0].token[OFI_TOKEN_BYTES - 1] ^= 1;
    lie[1].token[0] ^= 0x80;
    lie[2].rank = 0;
    lie[3].rank = 99;
    lie[4].word = LINK_BYTES / 2 / 8 + 5; /* lies in the heap, behind the words */
    for (int i = 0; i < EMPTY; i++) sent += stranger_send(&port, &honest, 0, to);
    for (int i = 0; i < LIES; i++) sent += stranger_send(&port, &lie[i], size_bytes[i], to);
    ofi_port_close(&port);
    return sent;
}

static bool link_serve(void *context)
{
    struct live_link *const link = context;
    return link->ops->progress(link) > 0;
}

/* Rank 1 signals 5 and 6.  Then a stranger's messages, some of them empty, arrive in buffers that held rank 1's
 * messages.  They must not change the word.  Then rank 1 signals once more. */
static int rank_hears_strangers(struct bootstrap *b, void *context)
{
    struct tapped *const t = context;
    const struct live_options options = options_for("tcp", LIVE_SIGNAL_IMM);
    struct live_memory memory;
    int sent = 0;
    t->base = (struct bootstrap){
        .ops = &tapped_ops, .rank = b->rank, .rank_count = b->rank_count, .timeout_ms = b->timeout_ms
    };
    t->inner = b;
    struct live_link *const link = link_open(&t->base, &options, &memory);
    if (!link) return 1;
    uint64_t *const words = (uint64_t *)(void *)memory.base;
    for (uint64_t value = 5; value <= 6; value++)
        if (b->rank == 1 && link->ops->signal(link, 0, 0, WORD * sizeof *words, value, false) != 0) return 12;
    if (b->rank == 0) {
        while (__atomic_load_n(&words[WORD], __ATOMIC_ACQUIRE) != 6)
            if (link->ops->progress(link) < 0) return 13;
        if (write(t->to_stranger[1], &t->known, sizeof t->known) != sizeof t->known) return 2;
        while (poll(&(struct pollfd){ .fd = t->from_stranger[0], .events = POLLIN }, 1, 1) == 0)
            if (link->ops->progress(link) < 0) return 3;
        if (read(t->from_stranger[0], &sent, sizeof sent) != sizeof sent || sent != LIES + EMPTY) return 4;
        for (int i = 0; i < 100; i++)
            if (link->ops->progress(link) < 0) return 5;
        for (size_t i = 0; i < LINK_BYTES / sizeof *words; i++)
            if (words[i] != (i == WORD ? 6 : 0)) return 6;
    }
    b->serve = link_serve;
    b->serve_context = link;
    if (!bootstrap_barrier(b, NULL)) return 7;
    if (b->rank == 1 && link->ops->signal(link, 0, 0, WORD * sizeof *words, 7, false) != 0) return 8;
    while (b->rank == 0 && __atomic_load_n(&words[WORD], __ATOMIC_ACQUIRE) != 7)
        if (link->ops->progress(link) < 0) return 9;
    while (b->rank == 1 && link->ops->flush(link, 0, 0) == -EAGAIN)
        if (link->ops->progress(link) < 0) return 10;
    if (!bootstrap_barrier(b, NULL)) return 11;
    b->serve = NULL;
    link->ops->free(link);
    return 0;
}

TEST("strangers at the port")
{
    struct tapped t = { .base = { 0 } };
    CU_ASSERT_EQUAL_FATAL(pipe(t.to_stranger) || pipe(t.from_stranger), 0);
    fflush(NULL);
    const pid_t stranger = fork();
    if (stranger == 0) {
        const int sent = stranger_main(&t);
        _exit(write(t.from_stranger[1], &sent, sizeof sent) != sizeof sent);
    }
    fork_says(2, 20000, rank_hears_strangers, &t, 0,
              "eptwin: rank 0: warning: drops messages that no rank of this run sent");
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(t.to_stranger[i]);
        close(t.from_stranger[i]);
    }
}

#else

TEST("refused without libfabric")
{
    const struct live_options options = options_for("tcp", LIVE_SIGNAL_WRITE);
    const struct fabric_needs needs = { 1 << 16, 8, 1, 4, 0, false };
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL(link_ofi_new(&options, &needs, NULL, NULL, NULL, &error));
    ASSERT_CONTAINS(error->message, "built without libfabric");
}

#endif

bool unit_begin(char **argv)
{
    (void)argv;
    alarm(600);
    g_setenv("FI_UNIVERSE_SIZE", "8", FALSE); /* The link sets it, too, but only after provider_exists() has run. */
    return true;
}
