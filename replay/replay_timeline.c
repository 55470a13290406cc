/* replay_timeline.c - the fabric of a rank that records its operations, and how the entries of all ranks become one
 * timeline.
 *
 * This file knows operations and clocks, but no kernel and no link. */
#include "replay/replay_timeline.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "sim/units.h"

enum {
    TRACK_KERNEL,
    TRACKS_OF_KERNEL,
    TRACKS_A_WORKER = 2, /* one for operations, one for waits */
    TEXTS_MAX = 4096,
    TEXT_BYTES = WAITS_TEXT_BYTES,
    BLOCK_BYTES = 1 << 18, /* most bytes that a rank sends in one exchange */
    CLOCK_ROUNDS = 16,
};

/* Kinds of entries.  They have the same names as in a simulated timeline. */
enum entry_name {
    NAME_STORE,
    NAME_LOAD,
    NAME_SIGNAL,
    NAME_POST_PUT,
    NAME_POST_SIGNAL,
    NAME_POST_PUT_SIGNAL,
    NAME_POST_GET,
    NAME_WORK, /* the first kind of work; the other kinds follow */
    NAME_WAIT = NAME_WORK + FABRIC_WORK_KINDS,
    NAME_PHASE, /* named by the entry's text */
    NAME_COUNT,
};
static const char *const names[NAME_COUNT] = {
    [NAME_STORE] = "store",
    [NAME_LOAD] = "load",
    [NAME_SIGNAL] = "signal",
    [NAME_POST_PUT] = "post put",
    [NAME_POST_SIGNAL] = "post signal",
    [NAME_POST_PUT_SIGNAL] = "post put and signal",
    [NAME_POST_GET] = "post get",
    [NAME_WORK + FABRIC_WORK_CAST] = "cast",
    [NAME_WORK + FABRIC_WORK_COPY] = "copy",
    [NAME_WORK + FABRIC_WORK_REDUCE] = "reduce",
    [NAME_WORK + FABRIC_WORK_SCAN] = "scan",
    [NAME_WAIT] = "wait",
    [NAME_PHASE] = "",
};

/* An entry, in the form in which ranks send it to rank 0. */
struct entry {
    uint64_t begin_ps, end_ps;
    uint64_t size_bytes;
    uint32_t worker;
    int32_t peer;  /* for a signal, the rank whose word it raises; for a wait, the awaited rank or WAITS_NOBODY */
    uint32_t text; /* for a wait or phase, the index of its text */
    uint32_t name;
};
_Static_assert(sizeof(struct entry) == 40, "crosses the bootstrap");

struct replay_timeline {
    struct fabric fabric; /* the fabric that kernels see */
    struct fabric *inner;
    bool on;
    struct entry *entry; /* a ring */
    uint32_t entries_max;
    uint64_t entry_count; /* number of entries recorded so far */
    GHashTable *numbers;  /* text -> its index + 1, because 0 means "not found" */
    GByteArray *texts;    /* TEXT_BYTES each */
};

static struct replay_timeline *timeline_of(const struct fabric *f)
{
    return fabric_container_of(f, struct replay_timeline, fabric);
}

/* ---- recording ---- */

static void entry_add(struct replay_timeline *t, const struct entry *entry)
{
    assert(entry->begin_ps <= entry->end_ps && entry->name < NAME_COUNT);
    t->entry[t->entry_count++ % t->entries_max] = *entry;
}

/* Returns the index of a text.  Texts are kept while there is room.  After that, all new texts get the last index. */
static uint32_t text_number(struct replay_timeline *t, const char *text)
{
    const uint32_t known = GPOINTER_TO_UINT(g_hash_table_lookup(t->numbers, text));
    const uint32_t count = t->texts->len / TEXT_BYTES;
    if (known) return known - 1;
    if (count == TEXTS_MAX) return TEXTS_MAX - 1;
    char kept[TEXT_BYTES] = "";
    g_strlcpy(kept, count == TEXTS_MAX - 1 ? "something else (too many to keep)" : text, sizeof kept);
    g_byte_array_append(t->texts, (const guint8 *)kept, sizeof kept);
    g_hash_table_insert(t->numbers, g_strdup(text), GUINT_TO_POINTER(count + 1));
    return count;
}

static void operation_add(struct replay_timeline *t, enum entry_name name, const struct fabric_worker *w,
                          uint64_t begin_ps, uint64_t size_bytes, int32_t peer)
{
    entry_add(t, &(struct entry){ .begin_ps = begin_ps,
                                  .end_ps = fabric_now_ps(t->inner),
                                  .size_bytes = size_bytes,
                                  .worker = w->index,
                                  .peer = peer,
                                  .name = name });
}

static uint64_t recorded_now_ps(const struct fabric *f) { return fabric_now_ps(timeline_of(f)->inner); }

static int recorded_store(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write)
{
    struct replay_timeline *t = timeline_of(f);
    const uint64_t begin_ps = t->on ? fabric_now_ps(t->inner) : 0;
    const int rc = t->inner->ops->store(t->inner, w, write);
    if (t->on && rc == 0) operation_add(t, NAME_STORE, w, begin_ps, write->charge_bytes, write->peer);
    return rc;
}

static int recorded_put(struct fabric *f, struct fabric_worker *w, const struct fabric_write *write,
                        const struct fabric_signal *signal)
{
    struct replay_timeline *t = timeline_of(f);
    const uint64_t begin_ps = t->on ? fabric_now_ps(t->inner) : 0;
    const int rc = t->inner->ops->put(t->inner, w, write, signal);
    const enum entry_name name = signal ? NAME_POST_PUT_SIGNAL : NAME_POST_PUT;
    if (t->on && rc == 0) operation_add(t, name, w, begin_ps, write->charge_bytes, write->peer);
    return rc;
}

static int recorded_signal(struct fabric *f, struct fabric_worker *w, const struct fabric_signal *signal)
{
    struct replay_timeline *t = timeline_of(f);
    const uint64_t begin_ps = t->on ? fabric_now_ps(t->inner) : 0;
    const int rc = t->inner->ops->signal(t->inner, w, signal);
    const bool rdma = fabric_path(f, signal->peer) == FABRIC_RDMA;
    if (t->on && rc == 0) operation_add(t, rdma ? NAME_POST_SIGNAL : NAME_SIGNAL, w, begin_ps, 0, signal->peer);
    return rc;
}

static int recorded_get(struct fabric *f, struct fabric_worker *w, const struct fabric_read *read)
{
    struct replay_timeline *t = timeline_of(f);
    const uint64_t begin_ps = t->on ? fabric_now_ps(t->inner) : 0;
    const int rc = t->inner->ops->get(t->inner, w, read);
    const bool rdma = fabric_path(f, read->peer) == FABRIC_RDMA;
    if (t->on && rc == 0)
        operation_add(t, rdma ? NAME_POST_GET : NAME_LOAD, w, begin_ps, read->charge_bytes, read->peer);
    return rc;
}

static void recorded_signal_add(struct fabric *f, struct fabric_worker *w, uint32_t word, uint64_t addend,
                                enum site site)
{
    struct replay_timeline *t = timeline_of(f);
    t->inner->ops->signal_add(t->inner, w, word, addend, site);
}

static int recorded_flush(struct fabric *f, struct fabric_worker *w, uint16_t peer, uint16_t queue)
{
    struct replay_timeline *t = timeline_of(f);
    return t->inner->ops->flush(t->inner, w, peer, queue);
}

static void recorded_work(struct fabric *f, struct fabric_worker *w, const struct fabric_work *work)
{
    struct replay_timeline *t = timeline_of(f);
    const uint64_t begin_ps = t->on ? fabric_now_ps(t->inner) : 0;
    t->inner->ops->work(t->inner, w, work);
    if (t->on) operation_add(t, NAME_WORK + work->kind, w, begin_ps, work->read_bytes, WAITS_NOBODY);
}

static void recorded_watch(struct fabric *f, struct fabric_worker *w, uint32_t word, uint32_t word_count,
                           uint64_t least)
{
    struct replay_timeline *t = timeline_of(f);
    t->inner->ops->watch(t->inner, w, word, word_count, least);
}

static void recorded_wake_at(struct fabric *f, struct fabric_worker *w, uint64_t time_ps)
{
    struct replay_timeline *t = timeline_of(f);
    t->inner->ops->wake_at(t->inner, w, time_ps);
}

static const struct fabric_ops recorded_ops = {
    .now_ps = recorded_now_ps,
    .store = recorded_store,
    .put = recorded_put,
    .signal = recorded_signal,
    .get = recorded_get,
    .signal_add = recorded_signal_add,
    .flush = recorded_flush,
    .work = recorded_work,
    .watch = recorded_watch,
    .wake_at = recorded_wake_at,
};

struct replay_timeline *replay_timeline_new(struct fabric *inner, uint32_t entries_max)
{
    assert(entries_max > 0);
    struct replay_timeline *t = g_new0(struct replay_timeline, 1);
    t->fabric = *inner;
    t->fabric.ops = &recorded_ops;
    t->inner = inner;
    t->entry = g_new(struct entry, entries_max);
    t->entries_max = entries_max;
    t->numbers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    t->texts = g_byte_array_new();
    return t;
}

void replay_timeline_free(struct replay_timeline *t)
{
    if (!t) return;
    g_hash_table_destroy(t->numbers);
    g_byte_array_free(t->texts, TRUE);
    g_free(t->entry);
    g_free(t);
}

struct fabric *replay_timeline_fabric(struct replay_timeline *t) { return &t->fabric; }

void replay_timeline_on(struct replay_timeline *t, bool on) { t->on = on; }

bool replay_timeline_is_on(const struct replay_timeline *t) { return t && t->on; }

void replay_timeline_phase(struct replay_timeline *t, const char *phase, uint64_t begin_ps, uint64_t end_ps)
{
    entry_add(t, &(struct entry){
                     .begin_ps = begin_ps, .end_ps = end_ps, .text = text_number(t, phase), .name = NAME_PHASE });
}

void replay_timeline_wait(void *context, const struct waits_note *note)
{
    struct replay_timeline *t = context;
    if (!t->on) return;
    entry_add(t, &(struct entry){ .begin_ps = note->begin_ps,
                                  .end_ps = note->end_ps,
                                  .worker = note->worker->index,
                                  .peer = note->peer,
                                  .text = text_number(t, note->text),
                                  .name = NAME_WAIT });
}

/* ---- clocks ---- */

/* How far a rank's clock is ahead of rank 0's, and the largest possible error of this difference. */
struct clock {
    int64_t ahead_ps;
    uint64_t bound_ps;
};

/* Compares each rank's clock with rank 0's.  In each round, every rank reports when it sent, and when it had
 * received from all others.  Each of two ranks received after the other had sent, which gives two bounds for the
 * difference between their clocks.  Their middle is the estimate.  The round with the closest bounds counts. */
static bool clocks_compare(struct replay_timeline *t, struct bootstrap *b, struct clock *clock, GError **error)
{
    g_autofree uint64_t *sent = g_new(uint64_t, b->rank_count), *heard = g_new(uint64_t, b->rank_count);
    for (uint32_t r = 0; r < b->rank_count; r++) clock[r] = (struct clock){ 0, UINT64_MAX };
    for (int round = 0; round < CLOCK_ROUNDS; round++) {
        const uint64_t mine_sent = fabric_now_ps(t->inner);
        if (!bootstrap_allgather(b, &mine_sent, sizeof mine_sent, sent, error)) return false;
        const uint64_t mine_heard = fabric_now_ps(t->inner);
        if (!bootstrap_allgather(b, &mine_heard, sizeof mine_heard, heard, error)) return false;
        for (uint32_t r = 0; r < b->rank_count; r++) {
            const uint64_t most = heard[r] - sent[0], least = sent[r] - heard[0]; /* both may be negative */
            const uint64_t bound_ps = (most - least) / 2;
            if (bound_ps < clock[r].bound_ps) clock[r] = (struct clock){ (int64_t)(least + bound_ps), bound_ps };
        }
    }
    clock[0] = (struct clock){ 0, 0 };
    return true;
}

/* ---- bringing all together ---- */

/* How many entries a rank sends, how many it has lost, and how many texts it sends. */
struct share {
    uint64_t entries, lost, texts;
};

/* Brings size[rank] bytes of every rank to all[rank] on rank 0, block by block.  On other ranks, all[] is set to
 * NULLs. */
static bool bytes_gather(struct bootstrap *b, const uint8_t *mine, const uint64_t *size, GByteArray **all,
                         GError **error)
{
    const uint64_t block = MIN((uint64_t)BLOCK_BYTES, (UINT64_C(200) << 20) / b->rank_count);
    g_autofree uint8_t *in = g_malloc(block), *out = g_malloc(block * b->rank_count);
    uint64_t most = 0;
    for (uint32_t r = 0; r < b->rank_count; r++) most = MAX(most, size[r]);
    for (uint32_t r = 0; r < b->rank_count; r++) all[r] = b->rank == 0 ? g_byte_array_new() : NULL;
    for (uint64_t at = 0; at < most; at += block) {
        const uint64_t left = at < size[b->rank] ? MIN(block, size[b->rank] - at) : 0;
        memset(in, 0, block);
        if (left) memcpy(in, mine + at, left);
        if (!bootstrap_allgather(b, in, block, out, error)) return false;
        for (uint32_t r = 0; b->rank == 0 && r < b->rank_count; r++)
            if (at < size[r]) g_byte_array_append(all[r], out + r * block, (guint)MIN(block, size[r] - at));
    }
    return true;
}

static void bytes_free(GByteArray **all, uint32_t count)
{
    for (uint32_t r = 0; all && r < count; r++)
        if (all[r]) g_byte_array_free(all[r], TRUE);
    g_free(all);
}

/* Returns the entries of the ring in the order in which they were recorded. */
static struct entry *entries_ordered(const struct replay_timeline *t, uint64_t count)
{
    struct entry *ordered = g_new(struct entry, count + 1);
    for (uint64_t i = 0; i < count; i++) ordered[i] = t->entry[(t->entry_count - count + i) % t->entries_max];
    return ordered;
}

/* The entries of all ranks, on rank 0. */
struct merge {
    struct timeline *timeline;
    uint32_t ranks;
    GByteArray **entries, **texts;
    const struct clock *clock;
    int64_t first_ps; /* time of the first entry, by the clock of rank 0 */
    GArray *signals;  /* struct signal_sent, sorted by from, to and time */
};

struct signal_sent {
    uint32_t from, to, track;
    uint64_t begin_ps, end_ps;
};

static uint32_t merge_count(const struct merge *m, uint32_t rank)
{
    return m->entries[rank]->len / (uint32_t)sizeof(struct entry);
}

static const struct entry *merge_entry(const struct merge *m, uint32_t rank, uint32_t i)
{
    return &((const struct entry *)(const void *)m->entries[rank]->data)[i];
}

static uint64_t merge_time(const struct merge *m, uint32_t rank, uint64_t time_ps)
{
    const int64_t at = (int64_t)(time_ps - (uint64_t)m->clock[rank].ahead_ps - (uint64_t)m->first_ps);
    return at > 0 ? (uint64_t)at : 0;
}

static uint32_t entry_track(const struct entry *e)
{
    if (e->name == NAME_PHASE) return TRACK_KERNEL;
    return TRACKS_OF_KERNEL + e->worker * TRACKS_A_WORKER + (e->name == NAME_WAIT);
}

/* Returns a rank's text by its number.  It comes from another process, so it is made fit for JSON.  The caller frees
 * it. */
static char *merge_text(const struct merge *m, uint32_t rank, uint32_t number)
{
    if (((uint64_t)number + 1) * TEXT_BYTES > m->texts[rank]->len) return g_strdup("");
    const char *at = (const char *)m->texts[rank]->data + (size_t)number * TEXT_BYTES;
    g_autofree char *text = text_printable(at, TEXT_BYTES);
    return g_utf8_make_valid(text, -1);
}

static bool entry_is_signal(const struct entry *e)
{
    return e->name == NAME_SIGNAL || e->name == NAME_POST_SIGNAL || e->name == NAME_POST_PUT_SIGNAL;
}

static int signal_order(const void *a, const void *b)
{
    const struct signal_sent *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->begin_ps < y->begin_ps ? -1 : x->begin_ps > y->begin_ps;
}

/* Returns the last signal from one rank to another that had begun by time_ps, or NULL. */
static const struct signal_sent *signal_before(const struct merge *m, uint32_t from, uint32_t to, uint64_t time_ps)
{
    const struct signal_sent key = { .from = from, .to = to, .begin_ps = time_ps };
    guint low = 0, high = m->signals->len; /* signals before index `low` are not after the key */
    while (low < high) {
        const guint middle = (low + high) / 2;
        if (signal_order(&g_array_index(m->signals, struct signal_sent, middle), &key) <= 0) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return NULL;
    const struct signal_sent *last = &g_array_index(m->signals, struct signal_sent, low - 1);
    return last->from == from && last->to == to ? last : NULL;
}

/* If e is a wait for a rank, draws an arrow from the last signal of that rank to the end of the wait. */
static void merge_arrow(const struct merge *m, uint32_t rank, const struct entry *e)
{
    if (e->name != NAME_WAIT || e->peer < 0 || (uint32_t)e->peer >= m->ranks || (uint32_t)e->peer == rank) return;
    const uint64_t end_ps = merge_time(m, rank, e->end_ps), begin_ps = merge_time(m, rank, e->begin_ps);
    const struct signal_sent *sent = signal_before(m, (uint32_t)e->peer, rank, end_ps);
    /* A signal that ended before the wait began did not end the wait. */
    if (!sent || sent->end_ps < begin_ps) return;
    timeline_arrow(m->timeline, &(struct timeline_arrow){ .name = "signal",
                                                          .from_ps = sent->begin_ps,
                                                          .to_ps = end_ps,
                                                          .from_process = sent->from,
                                                          .from_track = sent->track,
                                                          .to_process = rank,
                                                          .to_track = entry_track(e) });
}

static void merge_span(const struct merge *m, uint32_t rank, const struct entry *e)
{
    const uint64_t begin_ps = merge_time(m, rank, e->begin_ps), end_ps = merge_time(m, rank, e->end_ps);
    const bool phase = e->name == NAME_PHASE, wait = e->name == NAME_WAIT;
    g_autofree char *text = phase || wait ? merge_text(m, rank, e->text) : NULL;
    timeline_span(m->timeline, &(struct timeline_span){
                                   .name = phase ? text : names[e->name],
                                   .begin_ps = begin_ps,
                                   .end_ps = end_ps,
                                   .size_bytes = e->size_bytes,
                                   .process = rank,
                                   .track = entry_track(e),
                                   .detail = wait ? text : NULL,
                               });
}

/* Names a rank's process and those of its tracks that have entries. */
static void merge_names(const struct merge *m, uint32_t rank)
{
    char name[80];
    const double bound_us = units_us(m->clock[rank].bound_ps);
    if (bound_us > 0) snprintf(name, sizeof name, "rank %u (clock within %.3g us)", rank, bound_us);
    else snprintf(name, sizeof name, "rank %u", rank);
    timeline_name_process(m->timeline, rank, name);
    timeline_name_track(m->timeline, rank, TRACK_KERNEL, "kernel");
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    for (uint32_t i = 0; i < merge_count(m, rank); i++) {
        const struct entry *e = merge_entry(m, rank, i);
        const uint32_t track = entry_track(e);
        if (track == TRACK_KERNEL || !g_hash_table_add(seen, GUINT_TO_POINTER(track))) continue;
        timeline_name_worker(m->timeline, rank, track, e->worker, e->name == NAME_WAIT ? ", waits" : "");
    }
}

/* Whether an entry is valid.  Entries from another process are checked before use. */
static bool entry_sound(const struct entry *e)
{
    return e->name < NAME_COUNT && e->begin_ps <= e->end_ps && e->end_ps <= INT64_MAX && e->worker < UINT32_MAX / 4;
}

/* Finds the time of the first entry, and all signals. */
static void merge_look(struct merge *m)
{
    m->first_ps = INT64_MAX;
    for (uint32_t r = 0; r < m->ranks; r++)
        for (uint32_t i = 0; i < merge_count(m, r); i++) {
            const struct entry *e = merge_entry(m, r, i);
            if (!entry_sound(e)) continue;
            m->first_ps = MIN(m->first_ps, (int64_t)(e->begin_ps - (uint64_t)m->clock[r].ahead_ps));
        }
    for (uint32_t r = 0; r < m->ranks; r++)
        for (uint32_t i = 0; i < merge_count(m, r); i++) {
            const struct entry *e = merge_entry(m, r, i);
            if (!entry_sound(e) || !entry_is_signal(e) || e->peer < 0 || (uint32_t)e->peer == r) continue;
            const struct signal_sent sent = { r, (uint32_t)e->peer, entry_track(e), merge_time(m, r, e->begin_ps),
                                              merge_time(m, r, e->end_ps) };
            g_array_append_val(m->signals, sent);
        }
    g_array_sort(m->signals, signal_order);
}

static void merge_all(struct merge *m, const struct share *share)
{
    m->signals = g_array_new(FALSE, FALSE, sizeof(struct signal_sent));
    merge_look(m);
    for (uint32_t r = 0; r < m->ranks; r++) {
        timeline_lose(m->timeline, share[r].lost);
        merge_names(m, r);
        for (uint32_t i = 0; i < merge_count(m, r); i++) {
            const struct entry *e = merge_entry(m, r, i);
            if (!entry_sound(e)) continue;
            merge_span(m, r, e);
            merge_arrow(m, r, e);
        }
    }
    g_array_free(m->signals, TRUE);
}

/* Computes how many bytes of entries and of texts each rank sends: as many as it has, up to the limits. */
static void shares_sizes(const struct share *share, uint32_t ranks, uint32_t entries_max, uint64_t *entries,
                         uint64_t *texts)
{
    for (uint32_t r = 0; r < ranks; r++) {
        entries[r] = MIN(share[r].entries, entries_max) * sizeof(struct entry);
        texts[r] = MIN(share[r].texts, TEXTS_MAX) * TEXT_BYTES;
    }
}

bool replay_timeline_gather(struct replay_timeline *t, struct bootstrap *b, bool one_clock, struct timeline *all,
                            GError **error)
{
    const uint32_t ranks = b->rank_count;
    const uint64_t count = MIN(t->entry_count, t->entries_max);
    const struct share mine = { count, t->entry_count - count, t->texts->len / TEXT_BYTES };
    g_autofree struct clock *clock = g_new0(struct clock, ranks);
    g_autofree struct share *share = g_new(struct share, ranks);
    g_autofree uint64_t *entry_bytes = g_new(uint64_t, ranks), *text_bytes = g_new(uint64_t, ranks);
    if (!one_clock && !clocks_compare(t, b, clock, error)) return false;
    if (!bootstrap_allgather(b, &mine, sizeof mine, share, error)) return false;
    shares_sizes(share, ranks, t->entries_max, entry_bytes, text_bytes);
    struct merge m = { .timeline = all,
                       .ranks = ranks,
                       .clock = clock,
                       .entries = g_new0(GByteArray *, ranks),
                       .texts = g_new0(GByteArray *, ranks) };
    g_autofree struct entry *ordered = entries_ordered(t, count);
    const bool fine = bytes_gather(b, (const uint8_t *)ordered, entry_bytes, m.entries, error) &&
                      bytes_gather(b, t->texts->data, text_bytes, m.texts, error);
    if (fine && all && b->rank == 0) merge_all(&m, share);
    bytes_free(m.entries, ranks);
    bytes_free(m.texts, ranks);
    return fine;
}
