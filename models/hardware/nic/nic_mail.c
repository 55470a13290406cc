/* nic_mail.c - boxes of mail between the parts of a world; see nic_mail.h.  Knows nothing of what a quantum is. */
#include "models/hardware/nic/nic_mail.h"

#include <stdlib.h>
#include <string.h>
#include "sim/memory.h"

enum { BOX_FIRST = 64 };

struct mailbox *mailbox_new(uint32_t parts)
{
    struct mailbox *box = memory_new(1, sizeof *box);
    box->parts = parts;
    box->to = memory_new(parts, sizeof box->to[0]);
    return box;
}

void mailbox_free(struct mailbox *box)
{
    if (!box) return;
    free(box->mail);
    for (uint32_t p = 0; p < box->parts; p++) free(box->to[p].due);
    free(box->to);
    free(box->in);
    free(box->spare);
    free(box);
}

struct mail *mailbox_add(struct mailbox *box, uint32_t to, uint64_t sent_ps)
{
    if (box->count == box->max) {
        box->max = box->max ? 2 * box->max : BOX_FIRST;
        box->mail = memory_grow(box->mail, box->max, sizeof box->mail[0]);
    }
    struct mail_list *const list = &box->to[to];
    if (list->count == list->max) {
        list->max = list->max ? 2 * list->max : BOX_FIRST;
        list->due = memory_grow(list->due, list->max, sizeof list->due[0]);
    }
    list->due[list->count++] = (struct mail_due){ .sent_ps = sent_ps, .place = box->count };
    return &box->mail[box->count++];
}

void mailbox_clear(struct mailbox *box)
{
    box->count = 0;
    for (uint32_t p = 0; p < box->parts; p++) box->to[p].count = 0;
}

/* Sorts few entries, or entries that are nearly sorted.  Equal times keep their order. */
static void dues_insert(struct mail_due *due, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const struct mail_due moved = due[i];
        uint32_t place = i;
        for (; place && due[place - 1].sent_ps > moved.sent_ps; place--) due[place] = due[place - 1];
        due[place] = moved;
    }
}

/* Sorts entries whose times lie in [low_ps, low_ps + 2^bits), by as many slots as there are entries and then slot by
 * slot.  Equal times keep their order. */
static void dues_sort(struct mail_due *due, struct mail_due *spare, uint32_t count, uint64_t low_ps, uint32_t bits)
{
    enum { FEW = 12, SLOT_BITS_MAX = 8 };
    if (count <= FEW || !bits) {
        dues_insert(due, count);
        return;
    }
    uint32_t slot_bits = 31 - (uint32_t)__builtin_clz(count), end[1 << SLOT_BITS_MAX] = { 0 };
    if (slot_bits > SLOT_BITS_MAX) slot_bits = SLOT_BITS_MAX;
    if (slot_bits > bits) slot_bits = bits;
    const uint32_t shift = bits - slot_bits, slots = 1u << slot_bits;
    for (uint32_t i = 0; i < count; i++) end[(due[i].sent_ps - low_ps) >> shift]++;
    for (uint32_t s = 1; s < slots; s++) end[s] += end[s - 1];
    for (uint32_t i = count; i-- > 0;) spare[--end[(due[i].sent_ps - low_ps) >> shift]] = due[i];
    memcpy(due, spare, count * sizeof due[0]);
    for (uint32_t s = 0; s < slots; s++) { /* end[s] has become the slot's begin */
        const uint32_t behind = s + 1 < slots ? end[s + 1] : count;
        if (behind - end[s] > 1)
            dues_sort(due + end[s], spare, behind - end[s], low_ps + ((uint64_t)s << shift), shift);
    }
}

static void in_sort(struct mailbox *box)
{
    uint64_t low_ps = UINT64_MAX, high_ps = 0;
    for (uint32_t i = 0; i < box->in_count; i++) {
        const uint64_t sent_ps = box->in[i].sent_ps;
        low_ps = sent_ps < low_ps ? sent_ps : low_ps;
        high_ps = sent_ps > high_ps ? sent_ps : high_ps;
    }
    if (high_ps > low_ps)
        dues_sort(box->in, box->spare, box->in_count, low_ps, 64 - (uint32_t)__builtin_clzll(high_ps - low_ps));
}

/* Adds the mail of a list to box->in. */
static void in_add(struct mailbox *box, const struct mail_due *due, uint32_t count, struct mail *mail)
{
    if (box->in_count + count > box->in_max) {
        box->in_max = 2 * (box->in_count + count) + BOX_FIRST;
        box->in = memory_grow(box->in, box->in_max, sizeof box->in[0]);
        box->spare = memory_grow(box->spare, box->in_max, sizeof box->spare[0]);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct mail *const of = mail ? &mail[due[i].place] : due[i].mail;
        box->in[box->in_count++] = (struct mail_due){ due[i].sent_ps, { of } };
    }
}

void mailbox_collect(struct mailbox *box, struct mailbox *const *from, uint32_t number)
{
    enum { LISTS_AHEAD = 4 };
    box->in_count = 0;
    for (uint32_t s = 0; s < box->parts; s++) {
        if (s + LISTS_AHEAD < box->parts) __builtin_prefetch(&from[s + LISTS_AHEAD]->to[number]);
        const struct mail_list *const list = &from[s]->to[number];
        if (list->count) in_add(box, list->due, list->count, from[s]->mail);
    }
    in_sort(box);
}

void mailbox_collect_all(struct mailbox *box, struct mailbox *const *from)
{
    box->in_count = 0;
    for (uint32_t s = 0; s < box->parts; s++)
        if (from[s]->in_count) in_add(box, from[s]->in, from[s]->in_count, NULL);
    in_sort(box);
}
