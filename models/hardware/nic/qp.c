/* qp.c - makes QPs when they are first used, and makes requests.  What happens to a request is in nic_doorbell.c, nic.c
 * and nic_receive.c. qp_room.c says when a QP has room again. */
#include "models/hardware/nic/nic_internal.h"

#include <assert.h>
#include <stdlib.h>

enum { IMMEDIATE_BYTES = 4 }; /* what a write with an immediate carries besides its data */

/* ---- QPs ---- */

static arena_name *qp_place(const struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    assert(peer < rank->fabric.rank_count && queue < rank->fabric.queue_count);
    if (rank->world->transport.queues) queue %= rank->world->transport.queues;
    return &rank->qp[(uint32_t)peer * rank->fabric.queue_count + queue];
}

struct qp *nic_qp_find(struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    return qp_at(rank->world, *qp_place(rank, peer, queue));
}

struct qp *nic_qp(struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    struct world *w = rank->world;
    arena_name *place = qp_place(rank, peer, queue);
    if (*place) return qp_at(w, *place);
    struct qp *const qp = pool_get(&w->qps);
    *qp = (struct qp){ 0 };
    *place = arena_name_of(&w->arena, qp);
    return qp;
}

struct qp *nic_room(struct world_rank *rank, struct qp *qp, uint16_t queue)
{
    return rank->world->channels ? nic_qp(rank, rank->fabric.rank, queue) : qp;
}

struct qp_rest *nic_qp_more(struct world *w, struct qp *qp)
{
    struct qp_rest *rest = qp_rest_of(w, qp);
    if (rest) return rest;
    rest = pool_get(&w->qp_rests);
    *rest = (struct qp_rest){ .ack_last = qp->more };
    qp->more = arena_name_of(&w->arena, rest);
    qp->rested = true;
    return rest;
}

void nic_qps_clear(struct world_rank *rank)
{
    const uint32_t count = (uint32_t)rank->fabric.rank_count * rank->fabric.queue_count;
    for (uint32_t i = 0; rank->qp && i < count; i++) {
        const struct qp *const qp = qp_at(rank->world, rank->qp[i]);
        struct qp_rest *const rest = qp ? qp_rest_of(rank->world, qp) : NULL;
        if (!rest || !rest->flow) continue;
        dcqcn_flow_clear(rest->flow);
        free(rest->flow);
    }
}

void nic_qp_give_back(struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    struct world *w = rank->world;
    arena_name *const place = qp_place(rank, peer, queue);
    struct qp *const qp = qp_at(w, *place);
    struct qp_rest *const rest = qp_rest_of(w, qp);
    if (qp->held_last || qp->ready_last || qp->unknown || qp->unacked || *qp_ack_last(w, qp)) return;
    if (rest && (rest->waiter || rest->flow || rest->answers)) return;
    if (rest) pool_put(&w->qp_rests, rest);
    pool_put(&w->qps, qp);
    *place = 0;
}

void nic_queue_ahead(const struct world_rank *rank, uint16_t peer, uint16_t queue)
{
    qp_look_ahead(rank->world, *qp_place(rank, peer, queue));
}

/* Bytes of a message on the wire: its size, and headers for each packet of up to one MTU. */
static uint64_t wire_bytes(const struct cluster_nic *nic, uint64_t size_bytes)
{
    const uint64_t packets = size_bytes ? (size_bytes + nic->mtu_bytes - 1) / nic->mtu_bytes : 1;
    return size_bytes + packets * nic->header_bytes;
}

struct parcel *world_request_parcel(struct world *w, struct request *r)
{
    struct parcel *parcel = parcel_of(w, r);
    if (parcel) return parcel;
    assert(!r->leads); /* a request that leads a train has no parcel */
    parcel = pool_get(&w->parcels);
    *parcel = (struct parcel){ .request = r };
    r->parcel = arena_name_of(&w->arena, parcel);
    return parcel;
}

void world_request_free(struct world *w, struct request *r)
{
    struct parcel *const parcel = parcel_of(w, r);
    if (parcel) pool_put(&w->parcels, parcel);
    pool_put(&w->requests, r);
}

static void payload_set(struct world *w, struct request *r, const void *payload, uint32_t size_bytes, uint64_t target)
{
    struct parcel *parcel = size_bytes ? world_request_parcel(w, r) : NULL;
    if (!parcel) return;
    parcel->payload = payload;
    parcel->target_offset = target;
    parcel->payload_bytes = size_bytes;
}

struct request *world_request_write(struct world_rank *source, const struct fabric_write *write, const struct loop *p)
{
    struct world *w = source->world;
    struct request *r = pool_get(&w->requests);
    const uint64_t wire =
        wire_bytes(&w->cluster->nic, p ? loop_wire_bytes(p, write->charge_bytes) : write->charge_bytes);
    assert(wire <= UINT32_MAX);
    *r = (struct request){
        .source = source->fabric.rank,
        .target = write->peer,
        .queue = write->queue,
        .wire_bytes = (uint32_t)wire,
        .put = true,
        .message = (p && p->message) || w->transport.receive_ps,
        .places = 1,
    };
    payload_set(w, r, write->data, write->size_bytes, write->target_offset);
    return r;
}

struct request *world_request_signal(struct world_rank *source, const struct fabric_signal *signal)
{
    struct request *r = pool_get(&source->world->requests);
    *r = (struct request){
        .source = source->fabric.rank,
        .target = signal->peer,
        .queue = signal->queue,
        .signal = true,
        .word = signal->word,
        .value = signal->value,
        .wire_bytes = (uint32_t)source->world->cluster->nic.signal_bytes,
        .add = signal->add,
        .places = 1,
    };
    return r;
}

struct request *world_request_write_signal(struct world_rank *source, const struct fabric_write *write,
                                           const struct loop *p, const struct fabric_signal *signal)
{
    struct request *r = world_request_write(source, write, p);
    r->polled = p && p->polled;
    if (!r->polled)
        r->wire_bytes += source->world->transport.told ? IMMEDIATE_BYTES : source->world->cluster->nic.signal_bytes;
    r->signal = true;
    r->add = signal->add;
    r->word = signal->word;
    r->value = signal->value;
    r->places = 2;
    return r;
}

/* A get's request is as long as a signal.  Its answer is a put of the bytes. */
struct request *world_request_read(struct world_rank *source, const struct fabric_read *read)
{
    struct world *w = source->world;
    struct request *r = pool_get(&w->requests);
    struct world_rank *peer = &w->rank[read->peer];
    const uint64_t wire = wire_bytes(&w->cluster->nic, read->charge_bytes);
    assert(wire <= UINT32_MAX && read->source_offset + read->size_bytes <= peer->fabric.heap_bytes);
    *r = (struct request){
        .source = source->fabric.rank,
        .target = read->peer,
        .queue = read->queue,
        .get = true,
        .places = 1,
        .wire_bytes = (uint32_t)w->cluster->nic.signal_bytes,
        .answer_bytes = (uint32_t)wire,
    };
    if (read->size_bytes)
        payload_set(w, r, peer->fabric.heap + read->source_offset, read->size_bytes,
                    (uint64_t)((uint8_t *)read->target - source->fabric.heap));
    return r;
}
