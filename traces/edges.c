/* edges.c - memory and sums of a list of messages. */
#include "traces/edges_make.h"
#include "sim/memory.h"

void edges_alloc(struct edges *e, uint32_t ranks, uint32_t count)
{
    *e = (struct edges){
        .ranks = ranks,
        .first = g_new0(uint32_t, (gsize)ranks + 1),
        .target = g_new(uint16_t, (gsize)count + 1),
        .size_bytes = g_new(uint32_t, (gsize)count + 1),
        .target_offset = g_new(uint64_t, (gsize)count + 1),
        .sent_bytes = g_new0(uint64_t, ranks),
        .received_bytes = g_new0(uint64_t, ranks),
        .received = g_new0(uint32_t, ranks),
    };
}

void edges_free(struct edges *e)
{
    FREE_ALL(e->first, e->target, e->size_bytes, e->target_offset, e->sent_bytes, e->received_bytes, e->received);
    *e = (struct edges){ 0 };
}

void edges_finish(struct edges *e)
{
    for (uint32_t source = 0; source < e->ranks; source++)
        for (uint32_t i = e->first[source]; i < e->first[source + 1]; i++) {
            const uint16_t target = e->target[i];
            e->target_offset[i] = e->received_bytes[target];
            e->received_bytes[target] += e->size_bytes[i];
            e->sent_bytes[source] += e->size_bytes[i];
            e->received[target]++;
        }
}
