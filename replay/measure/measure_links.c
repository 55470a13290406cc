/* measure_links.c - benchmarks of links: streams of stores and puts, ping-pong, incast and all-to-all, by size.
 *
 * Senders and receivers are workers, which the live world steps like the workers of kernels.  So the results are
 * what a kernel would get.  A stream ends when flush says that everything has arrived at the peers. */
#include "replay/measure/measure.h"

#include <math.h>
#include <stdio.h>
#include "sim/stats.h"
#include "sim/units.h"

enum {
    BATCH = 64, /* operations of one step, which reads the CPU clock only twice */
};

/* ---- a stream of writes to one or more peers ---- */

struct stream {
    struct fabric_worker worker;
    uint32_t size_bytes, count;      /* count: writes to each peer */
    uint16_t first_peer, peer_count; /* peers first_peer, first_peer + 1, ... modulo the number of ranks, except the
                                      * rank itself */
    uint32_t posted;                 /* writes posted so far; the peers take turns */
    uint32_t queues;                 /* number of queues that the writes to a peer use in turn; 0: one */
    uint32_t flushed, signalled;     /* how many queues have been flushed, over all peers; how many peers have been
                                      * signalled */
    uint32_t chain;                  /* puts to a peer that share a doorbell; 0: each put rings its own */
    uint32_t pause, paused;          /* steps between two operations (0: none); how many of these steps have passed */
    bool signals;                    /* whether it sends signals instead of writes */
    bool deliver;                    /* whether it signals the peers at the end, when everything is delivered */
    uint64_t done_value;
    double post_us; /* CPU time in the calls that post */
};

static uint16_t stream_peer(const struct stream *s, uint32_t i)
{
    const struct fabric *f = s->worker.fabric;
    return (uint16_t)((s->first_peer + i % s->peer_count) % f->rank_count);
}

static uint32_t stream_queues(const struct stream *s) { return s->queues ? s->queues : 1; }

static int stream_signal(struct stream *s, uint32_t peer, uint64_t value)
{
    const struct fabric_signal signal = { .value = value,
                                          .word = s->worker.fabric->rank,
                                          .peer = stream_peer(s, peer) };
    return fabric_signal(&s->worker, &signal);
}

static int stream_post(struct stream *s)
{
    const struct fabric *f = s->worker.fabric;
    const uint32_t turn = s->posted / s->peer_count;
    if (s->signals) return stream_signal(s, s->posted, s->done_value - s->count + turn);
    const uint32_t places = MEASURE_AREA_BYTES / s->size_bytes;
    const uint64_t place = measure_place(turn, places) * s->size_bytes;
    const struct fabric_write write = {
        .target_offset = MEASURE_AREA_BYTES + place,
        .charge_bytes = s->size_bytes,
        .peer = stream_peer(s, s->posted),
        .data = f->heap + place,
        .size_bytes = s->size_bytes,
        .queue = (uint16_t)(turn / (s->chain ? s->chain : 1) % stream_queues(s)),
        .defer = s->chain && (turn + 1) % s->chain,
    };
    if (fabric_path(f, write.peer) == FABRIC_RDMA) return fabric_put(&s->worker, &write, NULL);
    return fabric_store(&s->worker, &write);
}

static enum worker_step stream_step(struct fabric_worker *w)
{
    struct stream *s = fabric_container_of(w, struct stream, worker);
    const uint32_t total = s->count * s->peer_count;
    if (s->posted < total) {
        if (s->paused++ < s->pause) return WORKER_MORE;
        const uint32_t batch = s->pause ? 1 : BATCH;
        s->paused = 0;
        const double start_us = contention_thread_us();
        int rc = 0;
        for (uint32_t i = 0; i < batch && s->posted < total && rc == 0; i++) {
            rc = stream_post(s);
            if (rc == 0) s->posted++;
        }
        s->post_us += contention_thread_us() - start_us;
        return rc < 0 ? WORKER_WAIT : WORKER_MORE;
    }
    for (; s->flushed < s->peer_count * stream_queues(s); s->flushed++) {
        const uint32_t peer = s->flushed / stream_queues(s), queue = s->flushed % stream_queues(s);
        if (fabric_flush(w, stream_peer(s, peer), (uint16_t)queue) < 0) return WORKER_WAIT;
    }
    for (; s->deliver && s->signalled < s->peer_count; s->signalled++)
        if (stream_signal(s, s->signalled, s->done_value) < 0) return WORKER_WAIT;
    return WORKER_DONE;
}

static void stream_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct stream *s = fabric_container_of(w, struct stream, worker);
    snprintf(text, text_size, "stream of %u writes of %u bytes: %u posted, %u of %u peers flushed", s->count,
             s->size_bytes, s->posted, s->flushed, s->peer_count);
}

static const struct worker_role stream_role = { .step = stream_step, .describe = stream_describe };

/* A worker that waits until ranks first to last - 1, except its own, have signalled that everything is delivered. */
struct sink {
    struct fabric_worker worker;
    uint32_t first, last;
    uint64_t done_value;
};

static enum worker_step sink_step(struct fabric_worker *w)
{
    struct sink *s = fabric_container_of(w, struct sink, worker);
    for (; s->first < s->last; s->first++)
        if (s->first != w->fabric->rank && fabric_load(w->fabric, s->first) < s->done_value) return WORKER_WAIT;
    return WORKER_DONE;
}

static void sink_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct sink *s = fabric_container_of(w, struct sink, worker);
    snprintf(text, text_size, "the end of the stream from rank %u", s->first);
}

static const struct worker_role sink_role = { .step = sink_step, .describe = sink_describe };

/* Runs the stream and the sink.  Sets value[] to five results: the time of a write on this rank (us), GB/s, writes
 * per us, the time to post a write (us), and its CPU time (us).  Ranks that only receive set no values. */
static bool stream_run(struct live_world *world, struct stream *s, struct sink *k, double *value, GError **error)
{
    struct fabric *f = live_world_fabric(world);
    s->worker = fabric_worker_of(f, &stream_role);
    k->worker = (struct fabric_worker){ .fabric = f, .role = worker_role_number(&f->roles, &sink_role), .index = 1 };
    struct fabric_worker *workers[2];
    uint32_t count = 0;
    if (s->peer_count) workers[count++] = &s->worker;
    if (k->first < k->last) workers[count++] = &k->worker;
    if (!live_world_barrier(world, error)) return false;
    const uint64_t polled_ps = live_world_polled_ps(world);
    live_world_time_polls(world, true);
    const double start_us = measure_now_us();
    if (!live_world_run(world, workers, count, error)) return false;
    live_world_time_polls(world, false);
    if (!s->peer_count) return true;
    const uint32_t writes = s->count * s->peer_count;
    value[0] = (measure_now_us() - start_us) / writes;
    value[1] = s->size_bytes / value[0] / 1e3;
    value[2] = 1 / value[0];
    value[3] = s->post_us / writes;
    value[4] = (s->post_us + units_us(live_world_polled_ps(world) - polled_ps)) / writes;
    return true;
}

/* Measures stores of rank 0 to rank 1.  Rank 1 sleeps in the bootstrap meanwhile, because stores need no work of it. */
static bool test_store(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    if (m->bootstrap->rank != 0) return true;
    struct stream s = { .size_bytes = size, .count = count, .first_peer = 1, .peer_count = 1 };
    s.worker = fabric_worker_of(live_world_fabric(m->store_world), &stream_role);
    struct fabric_worker *worker = &s.worker;
    const double start_us = contention_thread_us();
    if (!live_world_run(m->store_world, &worker, 1, error)) return false;
    value[0] = value[2] = (contention_thread_us() - start_us) / count;
    value[1] = size / value[0] / 1e3;
    return true;
}

static bool streams_run(struct live_world *world, struct measure *m, struct stream s, struct sink k, double *value,
                        GError **error)
{
    m->serial += s.count + 1;
    s.done_value = k.done_value = m->serial;
    s.deliver = true;
    return stream_run(world, &s, &k, value, error);
}

/* Measures puts of rank 0 to rank 1.  Rank 1 polls, because some links need the CPUs of both ends. */
static bool test_put(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    const uint32_t rank = m->bootstrap->rank;
    const struct stream s = { .size_bytes = size, .count = count, .first_peer = 1, .peer_count = rank == 0 };
    const struct sink k = { .last = rank == 1 };
    return streams_run(m->link_world, m, s, k, value, error);
}

/* Measures puts of ranks 0 and 1 to each other at the same time. */
static bool test_put_bidir(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    const uint32_t rank = m->bootstrap->rank;
    const struct stream s = { .size_bytes = size, .count = count, .first_peer = !rank, .peer_count = rank < 2 };
    const struct sink k = { .last = rank < 2 ? 2 : 0 };
    return streams_run(m->link_world, m, s, k, value, error);
}

static struct stream stream_to_all(const struct measure *m, uint32_t size, uint32_t count)
{
    const struct bootstrap *b = m->bootstrap;
    const uint32_t peers = b->rank_count - 1;
    return (struct stream){ .size_bytes = size,
                            .count = (count + peers - 1) / peers,
                            .first_peer = (uint16_t)(b->rank + 1),
                            .peer_count = (uint16_t)peers };
}

static bool to_all(struct live_world *world, struct measure *m, uint32_t size, uint32_t count, double *value,
                   GError **error)
{
    const struct sink k = { .last = m->bootstrap->rank_count };
    return streams_run(world, m, stream_to_all(m, size, count), k, value, error);
}

static bool test_put_to_all(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    return to_all(m->link_world, m, size, count, value, error);
}

static bool test_store_to_all(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    if (!to_all(m->store_world, m, size, count, value, error)) return false;
    value[2] = value[4]; /* the CPU time of the calls alone, because nothing is polled */
    value[0] = value[2] * measure_turns(m);
    value[1] = size / value[0] / 1e3;
    return true;
}

/* Measures puts of all other ranks to rank 0.  The bandwidth counts the bytes that arrive at rank 0. */
static bool test_put_incast(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    const struct bootstrap *b = m->bootstrap;
    const struct stream s = { .size_bytes = size, .count = count, .peer_count = b->rank != 0 };
    const struct sink k = { .last = b->rank == 0 ? b->rank_count : 0 };
    if (!streams_run(m->link_world, m, s, k, value, error)) return false;
    value[1] *= b->rank_count - 1;
    value[2] *= b->rank_count - 1;
    return true;
}

/* ---- what puts and signals take from the CPUs ---- */

/* Work that a rank does at the same time as a stream, so that its CPU is never idle.  The work sums rows.  As in a
 * kernel, its rows and the stream's data push each other out of caches.  The cost of a stream is the work that all
 * ranks lose, compared with an equal time without a stream.  They lose it to calls, to interrupts, and to threads of
 * the operating system on any CPU. */
struct beside {
    struct fabric_worker worker;
    struct measure *measure;
    const struct stream *stream; /* the work ends when this stream has ended; NULL: it ends when rounds_left is 0 */
    const struct sink *sink;
    uint32_t rounds_left;
    double start_us, cpu_us;
    GArray *round_us; /* when each round ended */
};

enum {
    BESIDE_ROUNDS_ALONE = 1000,
    LOAD_MANY = 4, /* a sample has this many times the operations of other benchmarks, so that it outlasts the
                    * scheduler's slices */
};

static enum worker_step beside_step(struct fabric_worker *w)
{
    struct beside *b = fabric_container_of(w, struct beside, worker);
    measure_sum(b->measure, b->round_us->len);
    const double now_us = measure_now_us();
    g_array_append_val(b->round_us, now_us);
    if (!b->stream) return --b->rounds_left ? WORKER_MORE : WORKER_DONE;
    return b->stream->signalled == b->stream->peer_count && b->sink->first == b->sink->last ? WORKER_DONE : WORKER_MORE;
}

static const struct worker_role beside_role = { .step = beside_step };

/* The time from the first rank's start until the first rank ends, and the work of all ranks in this time.  If the ranks
 * are on several hosts, whose clocks differ, each rank counts time from its own start. */
struct besides {
    double time_us, rounds;
};

static bool besides_gather(struct measure *m, const struct beside *b, struct besides *all, GError **error)
{
    const uint32_t ranks = m->bootstrap->rank_count;
    const double base_us = live_world_local_ranks(m->link_world) == ranks ? 0 : b->start_us;
    const double last_us = g_array_index(b->round_us, double, b->round_us->len - 1);
    const double mine[2] = { b->start_us - base_us, last_us - base_us };
    double(*interval)[2] = g_malloc(sizeof mine * ranks), *rounds = g_new(double, ranks);
    bool fine = bootstrap_allgather(m->bootstrap, mine, sizeof mine, interval, error);
    double first_us = mine[0], end_us = mine[1], count = 0;
    for (uint32_t r = 0; fine && r < ranks; r++) {
        first_us = fmin(first_us, interval[r][0]);
        end_us = fmin(end_us, interval[r][1]);
    }
    for (uint32_t i = 0; i < b->round_us->len; i++) count += g_array_index(b->round_us, double, i) - base_us <= end_us;
    fine = fine && bootstrap_allgather(m->bootstrap, &count, sizeof count, rounds, error);
    *all = (struct besides){ .time_us = end_us - first_us };
    for (uint32_t r = 0; fine && r < ranks; r++) all->rounds += rounds[r];
    g_free(interval);
    g_free(rounds);
    return fine;
}

/* Runs the workers on all ranks at once; b's worker is the last of them.  Sets *all to the work of all ranks
 * together. */
static bool beside_run(struct measure *m, struct beside *b, struct fabric_worker **workers, uint32_t count,
                       struct besides *all, GError **error)
{
    if (!m->sums) measure_sum(m, 0);
    if (!live_world_barrier(m->link_world, error)) return false;
    b->measure = m;
    b->round_us = g_array_new(FALSE, FALSE, sizeof(double));
    b->start_us = measure_now_us();
    const double start_cpu_us = contention_thread_us();
    bool fine = live_world_run(m->link_world, workers, count, error);
    b->cpu_us = contention_thread_us() - start_cpu_us;
    fine = fine && besides_gather(m, b, all, error);
    g_array_free(b->round_us, TRUE);
    return fine;
}

/* The work without a stream: rounds of all ranks in a given time, and the CPU time of a round. */
struct alone {
    struct besides all;
    double round_cpu_us;
};

static bool beside_alone(struct measure *m, struct alone *alone, GError **error)
{
    struct beside b = { .worker = fabric_worker_of(live_world_fabric(m->link_world), &beside_role),
                        .rounds_left = BESIDE_ROUNDS_ALONE };
    struct fabric_worker *worker = &b.worker;
    if (!beside_run(m, &b, &worker, 1, &alone->all, error)) return false;
    alone->round_cpu_us = b.cpu_us / BESIDE_ROUNDS_ALONE;
    return true;
}

/* Sets *lost_us to the CPU time that one operation of an all-to-all stream takes away from the work. */
static bool stream_beside(struct measure *m, struct stream s, const struct alone *alone, double *lost_us,
                          GError **error)
{
    struct fabric *f = live_world_fabric(m->link_world);
    m->serial += s.count + 1;
    s.done_value = m->serial;
    s.deliver = true;
    s.worker = fabric_worker_of(f, &stream_role);
    struct sink k = { .worker = { .fabric = f, .role = worker_role_number(&f->roles, &sink_role), .index = 1 },
                      .last = f->rank_count,
                      .done_value = m->serial };
    struct beside b = { .worker = { .fabric = f, .role = worker_role_number(&f->roles, &beside_role), .index = 2 },
                        .stream = &s,
                        .sink = &k };
    struct fabric_worker *workers[] = { &s.worker, &k.worker, &b.worker };
    struct besides all;
    if (!beside_run(m, &b, workers, G_N_ELEMENTS(workers), &all, error)) return false;
    const double operations = (double)s.count * s.peer_count * f->rank_count;
    const double lost = all.time_us * alone->all.rounds / alone->all.time_us - all.rounds;
    *lost_us = fmax(lost * alone->round_cpu_us / operations, 0);
    return true;
}

/* Measures bursts.  value[] gets what streams_run() measures while the CPU has no other work.  *lost_us gets the CPU
 * time that one operation takes away from other work. */
static bool burst_load(struct measure *m, struct stream s, const struct alone *alone, double *value, double *lost_us,
                       GError **error)
{
    const struct sink k = { .last = m->bootstrap->rank_count };
    return streams_run(m->link_world, m, s, k, value, error) && stream_beside(m, s, alone, lost_us, error);
}

/* Measures puts in three forms: in bursts, in bursts of chains, and one by one.  Puts of a burst share interrupts,
 * and puts of a chain also share a doorbell.  Kernels that work on rows between puts post them one by one.  Here the
 * work between two puts lasts as long as posting a put. */
static bool test_put_load(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    const struct stream s = stream_to_all(m, size, count * LOAD_MANY);
    struct stream burst = s, chained = s, paced = s;
    struct alone alone;
    double of_burst[MEASURE_VALUES], of_chained[MEASURE_VALUES];
    burst.queues = chained.queues = paced.queues = MEASURE_QUEUES;
    chained.chain = MEASURE_PUT_CHAIN;
    if (!beside_alone(m, &alone, error) || !burst_load(m, burst, &alone, of_burst, &value[1], error) ||
        !burst_load(m, chained, &alone, of_chained, &value[2], error))
        return false;
    value[0] = of_burst[0];
    paced.pause = (uint32_t)fmax(of_burst[3] / alone.round_cpu_us, 1);
    return stream_beside(m, paced, &alone, &value[3], error);
}

/* Measures signals in bursts, as of kernels that signal all peers at once. */
static bool test_signal_load(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    struct stream s = stream_to_all(m, size, count * LOAD_MANY);
    struct alone alone;
    double burst[MEASURE_VALUES];
    s.signals = true;
    if (!beside_alone(m, &alone, error) || !burst_load(m, s, &alone, burst, &value[1], error)) return false;
    value[0] = burst[0];
    return true;
}

/* ---- ping-pong ---- */

struct pong {
    struct fabric_worker worker;
    uint32_t size_bytes, count; /* size_bytes: 0 if a message is only a signal */
    uint64_t base;
    uint32_t sent, seen;
    bool written;
    double *sent_us; /* [count] when each message was sent */
};

static int pong_send(struct pong *p)
{
    struct fabric *f = p->worker.fabric;
    const uint16_t peer = !f->rank;
    if (p->size_bytes && !p->written) {
        const uint32_t places = MEASURE_AREA_BYTES / p->size_bytes;
        const uint64_t place = (uint64_t)(p->sent % places) * p->size_bytes;
        const struct fabric_write write = {
            .target_offset = MEASURE_AREA_BYTES + place,
            .charge_bytes = p->size_bytes,
            .peer = peer,
            .defer = true,
            .data = f->heap + place,
            .size_bytes = p->size_bytes,
        };
        const int rc = fabric_path(f, peer) == FABRIC_RDMA ? fabric_put(&p->worker, &write, NULL)
                                                           : fabric_store(&p->worker, &write);
        if (rc < 0) return rc;
        p->written = true;
    }
    const struct fabric_signal signal = { .value = p->base + p->sent + 1, .word = f->rank, .peer = peer };
    const int rc = fabric_signal(&p->worker, &signal);
    if (rc < 0) return rc;
    p->written = false;
    p->sent_us[p->sent++] = measure_now_us();
    return 0;
}

/* Steps rank 0, which sends messages, or rank 1, which answers each message. */
static enum worker_step pong_step(struct fabric_worker *w)
{
    struct pong *p = fabric_container_of(w, struct pong, worker);
    const struct fabric *f = w->fabric;
    if (p->seen < p->count && fabric_load(f, !f->rank) >= p->base + p->seen + 1) p->seen++;
    const bool turn = f->rank == 0 ? p->sent == p->seen : p->sent < p->seen;
    if (turn && p->sent < p->count) return pong_send(p) < 0 ? WORKER_WAIT : WORKER_MORE;
    return p->seen == p->count && p->sent == p->count ? WORKER_DONE : WORKER_WAIT;
}

static void pong_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct pong *p = fabric_container_of(w, struct pong, worker);
    snprintf(text, text_size, "ping-pong of %u bytes: %u sent, %u seen", p->size_bytes, p->sent, p->seen);
}

static const struct worker_role pong_role = { .step = pong_step, .describe = pong_describe };

/* Sets value[0] to half of the median round trip.  A mean would count round trips that another process interrupted,
 * which say nothing about the link. */
static bool test_latency(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    struct live_world *world = measure_world(m, m->test->over);
    struct pong p = { .size_bytes = size, .count = count, .base = m->serial };
    m->serial += count + 1;
    if (m->bootstrap->rank > 1) return true;
    p.worker = fabric_worker_of(live_world_fabric(world), &pong_role);
    struct fabric_worker *worker = &p.worker;
    p.sent_us = g_new(double, count);
    const bool fine = live_world_run(world, &worker, 1, error);
    if (fine && m->bootstrap->rank == 0) {
        for (uint32_t i = 0; i + 1 < count; i++) p.sent_us[i] = p.sent_us[i + 1] - p.sent_us[i];
        value[0] = stats_median(p.sent_us, count - 1) / 2;
    }
    g_free(p.sent_us);
    return fine;
}

/* ---- signals ---- */

struct signals {
    struct fabric_worker worker;
    uint32_t count, sent;
    uint64_t base;
    double post_us;
};

static enum worker_step signals_step(struct fabric_worker *w)
{
    struct signals *s = fabric_container_of(w, struct signals, worker);
    const double start_us = contention_thread_us();
    int rc = 0;
    for (uint32_t i = 0; i < BATCH && s->sent < s->count && rc == 0; i++) {
        const struct fabric_signal signal = { .value = s->base + s->sent + 1, .word = 0, .peer = 1 };
        rc = fabric_signal(w, &signal);
        if (rc == 0) s->sent++;
    }
    s->post_us += contention_thread_us() - start_us;
    if (s->sent < s->count) return rc < 0 ? WORKER_WAIT : WORKER_MORE;
    return fabric_flush(w, 1, 0) < 0 ? WORKER_WAIT : WORKER_DONE;
}

static const struct worker_role signals_role = { .step = signals_step, .describe = sink_describe };

/* Measures signals.  Rank 0 signals rank 1 repeatedly, and rank 1 waits for the last signal. */
static bool test_signals(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)size;
    struct live_world *world = measure_world(m, m->test->over);
    struct signals s = { .count = count, .base = m->serial };
    struct sink k = { .last = 1, .done_value = m->serial + count };
    m->serial += count;
    const uint32_t rank = m->bootstrap->rank;
    struct fabric *f = live_world_fabric(world);
    s.worker = fabric_worker_of(f, &signals_role);
    k.worker = fabric_worker_of(f, &sink_role);
    struct fabric_worker *worker = rank == 0 ? &s.worker : &k.worker;
    if (rank > 1) return true;
    const uint64_t polled_ps = live_world_polled_ps(world);
    live_world_time_polls(world, true);
    const double start_us = measure_now_us();
    if (!live_world_run(world, &worker, 1, error)) return false;
    live_world_time_polls(world, false);
    if (rank != 0) return true;
    value[0] = (measure_now_us() - start_us) / count;
    value[1] = s.post_us / count;
    value[2] = (s.post_us + units_us(live_world_polled_ps(world) - polled_ps)) / count;
    return true;
}

static bool test_barrier(struct measure *m, uint32_t size, uint32_t count, double *value, GError **error)
{
    (void)size;
    struct live_world *world = m->store_world ? m->store_world : m->link_world;
    if (!live_world_barrier(world, error)) return false;
    const double start_us = measure_now_us();
    for (uint32_t i = 0; i < count; i++)
        if (!live_world_barrier(world, error)) return false;
    value[0] = (measure_now_us() - start_us) / count;
    return true;
}

/* ---- tables ---- */

static const uint32_t stream_sizes[] = { 8, 64, 512, 1024, 2048, 4096, 7408, 14336, 65536, 262144, 1048576, 0 };
static const uint32_t latency_sizes[] = { 8, 512, 4096, 7408, 14336, 65536, 0 };
static const uint32_t crowd_sizes[] = { 1024, 7408, 14336, 65536, 0 };
static const uint32_t load_sizes[] = { 1024,  4096,  7408,  10240,  14336,  20480, 28672,
                                       45056, 65536, 98304, 131072, 196608, 0 };

#define STREAM_METRICS \
    { "stream_us", "bandwidth_gbs", "rate_mops", "post_us", "cpu_us" }, { "us", "GB/s", "M/s", "us", "us" }
#define STREAM_OF_STORES \
    { "time_us", "bandwidth_gbs", "cpu_us" }, { "us", "GB/s", "us" }
#define SIGNAL_METRICS \
    { "stream_us", "post_us", "cpu_us" }, { "us", "us", "us" }

bool measure_pair_run(struct measure *m, GError **error)
{
    static const struct measure_test tests[] = {
        { "store", STREAM_OF_STORES, .run = test_store, .sizes = stream_sizes, .over = MEASURE_STORE },
        { "store", { "latency_us" }, { "us" }, .run = test_latency, .sizes = latency_sizes, .over = MEASURE_STORE },
        { "store_signal", SIGNAL_METRICS, .run = test_signals, .over = MEASURE_STORE },
        { "store_signal", { "latency_us" }, { "us" }, .run = test_latency, .over = MEASURE_STORE },
        { "put", STREAM_METRICS, .run = test_put, .sizes = stream_sizes },
        { "put", { "latency_us" }, { "us" }, .run = test_latency, .sizes = latency_sizes },
        { "signal", SIGNAL_METRICS, .run = test_signals },
        { "signal", { "latency_us" }, { "us" }, .run = test_latency },
        { "put_bidir", STREAM_METRICS, .run = test_put_bidir, .sizes = stream_sizes },
        { "atomic", SIGNAL_METRICS, .run = test_signals, .over = MEASURE_ATOMIC },
        { "atomic", { "latency_us" }, { "us" }, .run = test_latency, .over = MEASURE_ATOMIC },
    };
    /* If there are two CPUs, each of the two ranks gets its own.  Otherwise the scheduler might put both on one. */
    cpu_set_t was;
    const bool fine = measure_cpu_pin(m, m->bootstrap->rank, &was, error) &&
                      measure_tests_run(m, tests, G_N_ELEMENTS(tests), "", error);
    sched_setaffinity(0, sizeof was, &was);
    return fine;
}

bool measure_load_run(struct measure *m, const char *suffix, GError **error)
{
    static const struct measure_test tests[] = {
        { "put_load",
          { "stream_us", "cpu_us", "chained_us", "alone_us" },
          { "us", "us", "us", "us" },
          .run = test_put_load,
          .sizes = load_sizes },
        { "signal_load", { "stream_us", "cpu_us" }, { "us", "us" }, .run = test_signal_load },
    };
    return measure_tests_run(m, tests, G_N_ELEMENTS(tests), suffix, error);
}

bool measure_crowd_run(struct measure *m, const char *suffix, GError **error)
{
    static const struct measure_test tests[] = {
        { "store_alltoall", STREAM_OF_STORES, .run = test_store_to_all, .sizes = crowd_sizes, .over = MEASURE_STORE },
        { "put_alltoall", STREAM_METRICS, .run = test_put_to_all, .sizes = crowd_sizes },
        { "put_incast", STREAM_METRICS, .run = test_put_incast, .sizes = crowd_sizes },
        { "barrier", { "time_us" }, { "us" }, .run = test_barrier },
    };
    return measure_tests_run(m, tests, G_N_ELEMENTS(tests), suffix, error);
}
