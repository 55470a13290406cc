/* moe_ll_combine.c - low-latency combine (PROTOCOLS.md 1.4): every expert's rows return to their source ranks and
 * are summed there with the token's weights.
 *
 *     zeroer, SM 0           clears the flags of the next call
 *     returner, one for      a warp group: writes its rows back.  Once the flags of the next call are clear, it raises
 *     each expert and source the expert's flag at the source.  Then it waits for the flag of another expert here
 *     reducer, up to two     after the grid barrier: sums a token's rows in FP32, in the order of their top-k places,
 *     an SM                  and rounds to BF16; one warp loads rows, three at a time, and the others sum columns
 *
 * With LogFMT a returner's warps turn their rows into logarithms, piece by piece, and a reducer's warps turn them back.
 * The front of a row tells how many bytes of it must be loaded. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "models/moe/formats.h"
#include "models/moe/moe_ll.h"

/* The local expert whose rows the group returns. */
static uint32_t local_expert_of(const struct ll_returner *t)
{
    return t->number % ll_returner_rank(t)->g.local_experts;
}
static uint32_t destination_of(const struct ll_returner *t) { return t->number / ll_returner_rank(t)->g.local_experts; }
static uint16_t queue_of(const struct ll_returner *t)
{
    return (uint16_t)(local_expert_of(t) % ll_returner_rank(t)->g.queues);
}

/* Where the rows that the group returns lie among the rows that dispatch received. */
static struct ll_range range_of(const struct ll_returner *t)
{
    const struct ll_rank *r = ll_returner_rank(t);
    return ll_range_at(r, local_expert_of(t) * r->g.ranks + destination_of(t));
}

static uint32_t range_rows(const struct ll_returner *t) { return range_of(t).count; }

/* The n-th row of the group's range.  Slots are numbered by local expert, destination and row where it is sent from,
 * and by expert and token where it goes to. */
static struct ll_returned range_returned(const struct ll_returner *t, uint32_t n)
{
    const struct ll_rank *r = ll_returner_rank(t);
    const uint32_t local_expert = local_expert_of(t), expert = r->base.fabric->rank * r->g.local_experts + local_expert;
    const uint64_t row = (uint64_t)local_expert * r->g.ranks * r->g.tokens_max + range_of(t).begin + n;
    assert(t->number < r->g.experts && r->recv_source_token[row] < r->g.tokens_max);
    return (struct ll_returned){
        .row = row,
        .from = ((uint64_t)local_expert * r->g.ranks + destination_of(t)) * r->g.tokens_max + n,
        .to = (uint64_t)expert * r->g.tokens_max + r->recv_source_token[row],
    };
}

static uint32_t one_a_warp(const struct ll_returner *t) { return t->worker.warps; }
static uint32_t one_read(const struct ll_returner *t)
{
    (void)t;
    return 1;
}

/* Every choice has a row, in the slot of its expert and the token. */
static bool choice_summed(const struct ll_rank *r, uint32_t token, uint32_t place, uint64_t *slot, float *weight)
{
    const int32_t expert = r->experts[(uint64_t)token * r->g.topk + place];
    if (expert == ROUTING_NONE) return false;
    assert((uint32_t)expert < r->g.experts);
    *slot = (uint64_t)expert * r->g.tokens_max + token;
    *weight = ll_weight(r, token, place);
    return true;
}

/* Returns where a slot of the send part, or of the receiving part, begins in the heap. */
static uint64_t from_offset(const struct ll_rank *r, uint64_t slot)
{
    return ll_send_offset(r) + slot * r->g.combine_stride;
}
static uint64_t to_offset(const struct ll_rank *r, uint64_t slot)
{
    return ll_recv_offset(r) + slot * r->g.combine_stride;
}

/* Writes the group's n-th row into its slot of the send buffer.  Returns how many bytes the row has there. */
static uint32_t slot_fill(const struct ll_returner *t, uint32_t n)
{
    const struct ll_rank *r = ll_returner_rank(t);
    const struct ll_returned row = r->combine->returned(t, n);
    uint8_t *slot = r->base.fabric->heap + from_offset(r, row.from);
    const uint16_t *values = r->expert_out + row.row * r->g.hidden;
    if (r->base.options->logfmt) return format_row_to_logs(values, r->g.hidden, slot);
    memcpy(slot, values, r->g.combine_bytes);
    return r->g.combine_bytes;
}

/* Packs `count` rows into the send buffer, from which the NIC takes them.  t->ahead already counts them as packed. */
static void pack_run(void *context, uint64_t count)
{
    const struct ll_returner *t = context;
    const uint32_t packed = t->row + t->ahead;
    assert(count <= packed && packed <= t->count);
    for (uint32_t i = packed - (uint32_t)count; i < packed; i++) (void)slot_fill(t, i);
}

/* Sets where the next row to be returned lies, and its size.  For RDMA or with LogFMT the row lies in the send buffer.
 * With zero-copy the expert has written it there. */
static void row_find(const struct ll_returner *t, enum fabric_path path, struct fabric_write *write)
{
    const struct ll_rank *r = ll_returner_rank(t);
    const struct ll_returned row = r->combine->returned(t, t->row);
    const uint8_t *slot = r->base.fabric->heap + from_offset(r, row.from);
    const bool logs = r->base.options->logfmt, rdma = path == FABRIC_RDMA;
    write->target_offset = to_offset(r, row.to);
    write->data = rdma || logs ? (const void *)slot : r->expert_out + row.row * r->g.hidden;
    write->size_bytes = !logs  ? r->g.combine_bytes
                        : rdma ? format_logs_row_bytes(slot, r->g.hidden)
                               : slot_fill(t, t->row);
    write->charge_bytes = write->size_bytes;
}

static int row_return(struct ll_returner *t, enum fabric_path path)
{
    struct ll_rank *r = ll_returner_rank(t);
    struct fabric *f = t->worker.fabric;
    assert(t->row < t->count && !t->flagged); /* the flag comes last */
    struct fabric_write write = {
        .peer = (uint16_t)destination_of(t),
        .queue = queue_of(t),
        .charge_bytes = r->g.return_bytes,
        .warps = 1,
        .site = r->base.options->logfmt ? SITE_LL_RETURN_LOGS : r->combine->return_row,
        .given = &r->return_row,
        .defer = (t->row + 1) % r->combine->rings_every,
    };
    if (f->payload) row_find(t, path, &write);
    return path == FABRIC_RDMA ? fabric_put(&t->worker, &write, NULL) : fabric_store(&t->worker, &write);
}

/* Returns a batch of rows to the source: as many as the group returns at once. */
static enum worker_step returner_rows(struct ll_returner *t, enum fabric_path path)
{
    struct ll_rank *r = ll_returner_rank(t);
    const uint32_t batch = moe_min(t->count - t->row, r->combine->at_once(t));
    if (path == FABRIC_RDMA && !r->base.options->zero_copy && t->ahead < batch) {
        const uint32_t rows = batch - t->ahead;
        t->ahead = batch & (2 * LL_WARPS_PER_SM - 1);
        fabric_work(&t->worker, &(struct fabric_work){ .kind = FABRIC_WORK_COPY,
                                                       .site = r->base.options->logfmt ? SITE_LL_RETURN_LOGS
                                                                                       : r->combine->return_row,
                                                       .given = &r->return_row,
                                                       .rows = rows,
                                                       .read_bytes = (uint64_t)rows * r->g.combine_bytes,
                                                       .write_bytes = (uint64_t)rows * r->g.return_bytes,
                                                       .run = pack_run,
                                                       .context = t,
                                                       .argument = rows });
    }
    for (const uint32_t end = t->row + batch; t->row < end; t->row++) {
        const int rc = row_return(t, path);
        if (rc == -EAGAIN) return WORKER_WAIT;
        assert(rc == 0);
        t->ahead -= t->ahead > 0;
    }
    return WORKER_MORE;
}

/* Raises the local expert's flag at the rank that the group's rows came from.  False: try again later. */
static bool returner_flag(struct ll_returner *t)
{
    struct fabric_worker *w = &t->worker;
    struct ll_rank *r = ll_returner_rank(t);
    if (fabric_load(w->fabric, ll_word_clean(r)) < r->clean_target) return false;
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = r->combine->clean_look, .rows = 1 });
    assert(t->row == t->count && !t->flagged);
    const struct fabric_signal signal = {
        .peer = (uint16_t)destination_of(t),
        .queue = queue_of(t),
        .site = r->combine->flag_tell,
        .word = ll_word_flag(r, w->fabric->rank * r->g.local_experts + local_expert_of(t)),
        .value = moe_word_make(r->call, 1),
    };
    const int rc = fabric_signal(w, &signal);
    if (rc == -EAGAIN) return false;
    assert(rc == 0);
    fabric_signal_add(w, ll_word_clean(r), 0, SITE_NONE); /* stands for the atomic that lowers the word `clean` in
                                                           * the real kernel */
    t->flagged = true;
    t->looked = false;
    return true;
}

/* Sends the group's rows.  Then waits for the flag of the expert that has the group's number. */
static enum worker_step returner_step(struct fabric_worker *w)
{
    struct ll_returner *t = fabric_container_of(w, struct ll_returner, worker);
    struct ll_rank *r = ll_returner_rank(t);
    if (t->send && !t->flagged && !t->looked) {
        fabric_work(w, &(struct fabric_work){
                           .kind = FABRIC_WORK_SCAN, .site = r->combine->layout_read, .rows = r->combine->reads(t) });
        t->looked = true;
        return WORKER_MORE;
    }
    if (t->row < t->count) {
        const enum worker_step step = returner_rows(t, fabric_path(w->fabric, (uint16_t)destination_of(t)));
        if (step == WORKER_WAIT || t->row < t->count) return step;
    }
    if (t->send && !t->flagged && !returner_flag(t)) return WORKER_WAIT;
    if (!t->receive) return WORKER_DONE;
    const bool came = moe_word_value(fabric_load(w->fabric, ll_word_flag(r, t->number)), r->call);
    if (!t->looked && ll_host_look(w, r, destination_of(t), t->number, came)) {
        t->looked = true;
        return WORKER_MORE;
    }
    if (!came && !ll_given_up(r, w, destination_of(t))) return WORKER_WAIT;
    if (!t->send)
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = SITE_LL_WORD_FIRST, .rows = 1 });
    fabric_signal_add(w, ll_word_gate(r), 1, (enum site)r->dispatch->grid_come);
    return WORKER_DONE;
}

static void returner_ahead(const struct fabric_worker *w)
{
    const struct ll_returner *t = fabric_container_of(w, const struct ll_returner, worker);
    const struct ll_rank *r = ll_returner_rank(t);
    const struct fabric *f = r->base.fabric;
    const bool flags = t->flagged || !t->send;
    fabric_ahead(f, ll_word_gate(r), flags ? f->rank : (uint16_t)destination_of(t), queue_of(t));
    if (flags) __builtin_prefetch(&f->words[ll_word_flag(r, t->number)]);
}

static void returner_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    const struct ll_returner *t = fabric_container_of(w, struct ll_returner, worker);
    const struct ll_rank *r = ll_returner_rank(t);
    if (t->send && t->row == t->count && !t->flagged && fabric_load(w->fabric, ll_word_clean(r)) < r->clean_target)
        snprintf(text, text_size, "combine sender of local expert %u waits until this rank's flags are cleared",
                 local_expert_of(t));
    else if (t->send && !t->flagged)
        snprintf(text, text_size, "combine sender of local expert %u has no room on the queue to rank %u",
                 local_expert_of(t), destination_of(t));
    else snprintf(text, text_size, "combine waits for the flag of expert %u on rank %u", t->number, destination_of(t));
}

static const struct worker_role returner_role = { .step = returner_step,
                                                  .describe = returner_describe,
                                                  .ahead = returner_ahead };

static enum worker_step zeroer_step(struct fabric_worker *w)
{
    struct ll_rank *r = fabric_container_of(w, struct ll_zeroer, worker)->rank;
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = r->combine->flags_zero, .rows = 1 });
    fabric_signal_add(w, ll_word_clean(r), 1, SITE_NONE);
    return WORKER_DONE;
}

static const struct worker_role zeroer_role = { .step = zeroer_step };

/* The rows that come back for a token, in the order of its choices, and their weights.  Returns how many. */
static uint32_t rows_find(const struct ll_rank *r, uint64_t token, const uint8_t *row[LL_TOPK_MAX],
                          float weight[LL_TOPK_MAX])
{
    uint32_t count = 0;
    for (uint32_t j = 0; j < r->g.topk; j++) {
        uint64_t slot;
        if (!r->combine->summed(r, (uint32_t)token, j, &slot, &weight[count])) continue;
        assert(count < LL_TOPK_MAX);
        row[count++] = r->base.fabric->heap + to_offset(r, slot);
    }
    return count;
}

static void reduce_logs(const struct ll_rank *r, const uint8_t *const row[], const float weight[], uint32_t count,
                        uint64_t token)
{
    float sum[r->g.hidden];
    memset(sum, 0, sizeof sum);
    for (uint32_t i = 0; i < count; i++) format_logs_add(row[i], r->g.hidden, weight[i], sum);
    format_row_round(sum, r->g.hidden, r->combined + token * r->g.hidden);
}

static void reduce_run(void *context, uint64_t token)
{
    struct ll_rank *r = context;
    const uint8_t *row[LL_TOPK_MAX];
    float weight[LL_TOPK_MAX];
    const uint32_t count = rows_find(r, token, row, weight);
    if (r->base.options->logfmt) {
        reduce_logs(r, row, weight, count, token);
        return;
    }
    const uint16_t *values[LL_TOPK_MAX];
    for (uint32_t i = 0; i < count; i++) values[i] = (const uint16_t *)(const void *)row[i];
    format_rows_reduce(values, weight, count, r->g.hidden, r->combined + token * r->g.hidden);
}

static enum worker_step reducer_step(struct fabric_worker *w)
{
    struct ll_reducer *d = fabric_container_of(w, struct ll_reducer, worker);
    struct ll_rank *r = d->rank;
    if (fabric_load(w->fabric, ll_word_open(r)) < r->open_target) return WORKER_WAIT;
    if (d->token >= r->own->tokens) return WORKER_DONE;
    assert(d->stride > 0);
    if (!d->chosen) {
        fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_SCAN, .site = r->combine->choices_sum, .rows = 1 });
        d->chosen = true;
        return WORKER_MORE;
    }
    uint32_t rows = 0;
    for (uint32_t j = 0; j < r->g.topk; j++)
        rows += r->combine->summed(r, d->token, j, &(uint64_t){ 0 }, &(float){ 0 });
    fabric_work(w, &(struct fabric_work){ .kind = FABRIC_WORK_REDUCE,
                                          .rows = rows,
                                          .site = r->base.options->logfmt ? SITE_LL_SUM_LOGS : r->combine->sum_rows,
                                          .given = &r->sum_rows,
                                          .read_bytes = (uint64_t)rows * r->g.return_bytes,
                                          .write_bytes = r->g.combine_bytes,
                                          .run = reduce_run,
                                          .context = r,
                                          .argument = d->token });
    d->token += d->stride;
    return d->token < r->own->tokens ? WORKER_MORE : WORKER_DONE;
}

static void reducer_describe(const struct fabric_worker *w, char *text, size_t text_size)
{
    snprintf(text, text_size, "combine reducer on SM %u waits for the grid barrier", w->sm);
}

static const struct worker_role reducer_role = { .step = reducer_step, .describe = reducer_describe };

void ll_row_widen(const struct ll_rank *r, uint64_t row, uint16_t *out)
{
    const uint8_t *in = r->recv_x + row * r->g.row_bytes;
    if (r->g.scale_count) format_row_from_fp8(in, r->recv_scale + row * r->g.scale_count, r->g.hidden, out);
    else memcpy(out, in, r->g.row_bytes);
}

void ll_expert_run(struct ll_rank *r)
{
    for (uint32_t e = 0; e < r->g.local_experts; e++) {
        const uint64_t first = (uint64_t)e * r->g.ranks * r->g.tokens_max;
        for (uint64_t row = first; row < first + r->packed_count[e]; row++)
            ll_row_widen(r, row, r->expert_out + row * r->g.hidden);
    }
}

/* The stride by which groups are launched.  It reaches each group once and spreads destinations evenly.  A GPU's groups
 * work at the same time, but here they are stepped one after another.  If they were stepped in the order of their
 * numbers, all ranks would send their first rows to rank 0, then to rank 1. */
static uint32_t step_stride(uint32_t groups)
{
    for (uint32_t stride = groups * 89 / 144 + 1;; stride++) { /* the first number from the golden section of groups
                                                                * on that has no common divisor with groups */
        uint32_t a = groups, b = stride;
        while (b) {
            const uint32_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return stride;
    }
}

/* With zero-copy the experts write the rows that go by RDMA into the send buffer, before combine. */
static void expert_write(const struct ll_returner *t)
{
    const struct ll_rank *r = ll_returner_rank(t);
    const struct fabric *f = r->base.fabric;
    if (!r->base.options->zero_copy || !f->payload) return;
    if (fabric_path(f, (uint16_t)destination_of(t)) != FABRIC_RDMA) return;
    for (uint32_t row = 0; row < t->count; row++) (void)slot_fill(t, row);
}

static void returners_launch(struct ll_rank *r, bool send, bool receive)
{
    const uint32_t stride = step_stride(r->g.experts);
    r->return_row = (struct site_given){ .size = { r->g.combine_bytes } };
    if (send) {
        r->zeroer = (struct ll_zeroer){ .rank = r };
        ll_worker_add(r, &r->zeroer.worker, &zeroer_role, 0, 1);
        r->clean_target++;
    }
    for (uint32_t i = 0; i < r->g.experts; i++) {
        const uint32_t e = (uint32_t)((uint64_t)i * stride % r->g.experts);
        struct ll_returner *t = &r->pair[e].returner;
        if (ll_masks(r, e / r->g.local_experts)) continue;
        *t = (struct ll_returner){ .number = e & LL_EXPERTS_MAX, .send = send, .receive = receive };
        if (send) t->count = (uint16_t)r->combine->rows(t);
        ll_worker_add(r, &t->worker, &returner_role, e / r->g.groups, r->g.warps_per_group);
        if (send) expert_write(t);
        if (send) fabric_watch(&t->worker, ll_word_clean(r), 1, 0);
        if (receive) fabric_watch(&t->worker, ll_word_flag(r, e), 1, 0);
        r->gate_target += receive;
    }
}

/* The number of SMs for the sums.  All SMs that have groups of experts take part.  Beyond these, only as many SMs take
 * part as are needed to give no SM more tokens than if all took part. */
static uint32_t sum_sms(const struct ll_rank *r)
{
    const uint32_t each = (r->own->tokens + r->g.sms - 1) / r->g.sms;
    const uint32_t sms = each ? (r->own->tokens + each - 1) / each : 1;
    return sms > r->g.grid ? sms : r->g.grid;
}

struct kernel_launch *ll_combine_launch(struct ll_rank *r, bool send, bool receive)
{
    if (send && r->combine->prepare) r->combine->prepare(r);
    returners_launch(r, send, receive);
    if (!receive) return &r->kernel;
    ll_gate_add(r);
    ll_gate_watch(r);
    /* If no piece of a row fits LogFMT, the row has no logarithms, and none are turned back. */
    r->sum_rows = (struct site_given){ .size = { ll_choices(r) * r->g.return_bytes,
                                                 r->g.return_bytes < r->g.combine_bytes ? r->g.combine_bytes : 0 } };
    const uint32_t sms = sum_sms(r);
    for (uint32_t i = 0; i < sms * r->g.sum_groups && i < r->own->tokens; i++) {
        r->reducer[i] = (struct ll_reducer){ .rank = r, .token = i, .stride = sms * r->g.sum_groups };
        ll_worker_add(r, &r->reducer[i].worker, &reducer_role, i % sms, r->g.sum_warps + 1);
        fabric_watch(&r->reducer[i].worker, ll_word_open(r), 1, 0);
    }
    return &r->kernel;
}

const struct ll_combine_kind ll_combine_deepep = {
    .flags_zero = SITE_LL_FLAGS_ZERO,
    .layout_read = SITE_LL_LAYOUT_READ,
    .return_row = SITE_LL_RETURN_ROW,
    .clean_look = SITE_LL_CLEAN_LOOK,
    .flag_tell = SITE_LL_FLAG_TELL,
    .choices_sum = SITE_LL_CHOICES_SUM,
    .sum_rows = SITE_LL_SUM_ROWS,
    .rings_every = LL_DOORBELL_EVERY,
    .expert_run = ll_expert_run,
    .rows = range_rows,
    .returned = range_returned,
    .at_once = one_a_warp,
    .reads = one_read,
    .summed = choice_summed,
};
