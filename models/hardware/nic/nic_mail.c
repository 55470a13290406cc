/* nic_mail.c - boxes of mail between the parts of a world; see nic_mail.h.  Knows nothing of what a quantum is. */
#include "models/hardware/nic/nic_mail.h"

#include <stdlib.h>
#include "sim/memory.h"

enum { BOX_FIRST = 64 };

struct mailbox *mailbox_new(uint32_t parts)
{
    struct mailbox *box = memory_new(1, sizeof *box);
    box->parts = parts;
    box->to = memory_new(parts, sizeof box->to[0]);
    box->run = memory_new((size_t)parts + 1, sizeof box->run[0]);
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
    free(box->run);
    free(box);
}

void mailbox_send(struct mailbox *box, uint32_t to, const struct mail *mail)
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
    list->due[list->count++] = (struct mail_due){ .sent_ps = mail->sent_ps, .place = box->count };
    box->mail[box->count++] = *mail;
}

void mailbox_clear(struct mailbox *box)
{
    box->count = 0;
    for (uint32_t p = 0; p < box->parts; p++) box->to[p].count = 0;
}

static void in_add(struct mailbox *box, struct mail_due due)
{
    if (box->in_count == box->in_max) {
        box->in_max = box->in_max ? 2 * box->in_max : BOX_FIRST;
        box->in = memory_grow(box->in, box->in_max, sizeof box->in[0]);
        box->spare = memory_grow(box->spare, box->in_max, sizeof box->spare[0]);
    }
    box->in[box->in_count++] = due;
}

/* Merges in[begin, middle) and in[middle, end) into the same range of spare.  Of two entries with equal times, the
 * one of the first half goes first. */
static void pair_merge(struct mailbox *box, uint32_t begin, uint32_t middle, uint32_t end)
{
    const struct mail_due *const in = box->in;
    uint32_t a = begin, b = middle;
    for (uint32_t at = begin; at < end; at++) {
        const bool second = a == middle || (b < end && in[b].sent_ps < in[a].sent_ps);
        box->spare[at] = second ? in[b++] : in[a++];
    }
}

/* Merges the sorted stretches of box->in, of which there are `runs`, into one. */
static void runs_merge(struct mailbox *box, uint32_t runs)
{
    uint32_t *const run = box->run;
    for (run[runs] = box->in_count; runs > 1; runs = (runs + 1) / 2) {
        for (uint32_t i = 0; i < runs; i += 2) {
            const uint32_t end = run[i + 2 < runs ? i + 2 : runs];
            pair_merge(box, run[i], i + 1 < runs ? run[i + 1] : end, end);
        }
        for (uint32_t i = 0; i < runs; i += 2) run[i / 2] = run[i];
        run[(runs + 1) / 2] = box->in_count;
        struct mail_due *const merged = box->spare;
        box->spare = box->in;
        box->in = merged;
    }
}

void mailbox_collect(struct mailbox *box, struct mailbox *const *from, uint32_t number)
{
    uint32_t runs = 0;
    box->in_count = 0;
    for (uint32_t s = 0; s < box->parts; s++) {
        const struct mail_list *const list = &from[s]->to[number];
        if (!list->count) continue;
        box->run[runs++] = box->in_count;
        for (uint32_t i = 0; i < list->count; i++)
            in_add(box, (struct mail_due){ list->due[i].sent_ps, { &from[s]->mail[list->due[i].place] } });
    }
    runs_merge(box, runs);
}

void mailbox_collect_all(struct mailbox *box, struct mailbox *const *from)
{
    uint32_t runs = 0;
    box->in_count = 0;
    for (uint32_t s = 0; s < box->parts; s++) {
        if (!from[s]->in_count) continue;
        box->run[runs++] = box->in_count;
        for (uint32_t i = 0; i < from[s]->in_count; i++) in_add(box, from[s]->in[i]);
    }
    runs_merge(box, runs);
}
