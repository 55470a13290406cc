/* nic_mail.h - quanta on their way to the port of a peer.  Private to models/hardware.
 *
 * Where a world is one part, the peer takes a quantum in as soon as it is sent.  Where its nodes are parts that run at
 * the same time, see parts.h, the peer takes it in after the end of the window in which it was sent.  Until then the
 * quantum is mail.  A node reads its mail in the order of sending times.  Mail with equal times is read by source node,
 * and mail of one node in the order in which it was put into the box.  The peer writes into a quantum when it arrived,
 * and the source then reads that. */
#ifndef MODELS_HARDWARE_NIC_MAIL_H
#define MODELS_HARDWARE_NIC_MAIL_H

#include <stdbool.h>
#include <stdint.h>
#include "models/hardware/nic/nic.h"

struct mail {
    uint64_t sent_ps, head_ps; /* when its port sent it; when its first byte comes to the network */
    uint64_t there_ps;         /* when its last byte comes to the network; once its way is planned: when it is at the
                                * peer */
    uint64_t acked_ps;         /* when the source knows that it is there; 0: this is not known yet */
    struct request *kept; /* the source's request; valid until nic_mail_told() has run.  NULL: it is sent whole, has
                           * no parcel and is not recorded, so it is freed already, and `sent` is its copy */
    struct request sent;
    uint32_t size_bytes;
    bool last;  /* it is the last quantum of its request */
    bool lands; /* the request itself has become an event of the peer */
};

static inline struct request *mail_request(struct mail *m) { return m->kept ? m->kept : &m->sent; }

struct mail_due {
    uint64_t sent_ps;
    union {
        struct mail *mail;
        uint32_t place; /* index of the mail in its box, whose array may still move */
    };
};

/* The mail to one part, in the order in which it was put into the box. */
struct mail_list {
    struct mail_due *due; /* [count] */
    uint32_t count, max;
};

/* The mail that a part has sent in this window, and the mail that has come to it. */
struct mailbox {
    struct mail *mail; /* [count] */
    uint32_t count, max;
    struct mail_list *to;        /* [parts] */
    struct mail_due *in, *spare; /* [in_count] mail in the order in which it is read; room for sorting */
    uint32_t in_count, in_max;
    uint32_t parts;
};

struct mailbox *mailbox_new(uint32_t parts);
void mailbox_free(struct mailbox *box);
/* Returns a place in the box for mail to the part `to` that is sent at sent_ps.  It stays there until the box gets more
 * mail. */
struct mail *mailbox_add(struct mailbox *box, uint32_t to, uint64_t sent_ps);
/* Fills box->in with the mail that all boxes hold for the part with this number. */
void mailbox_collect(struct mailbox *box, struct mailbox *const *from, uint32_t number);
/* Fills box->in with the mail that all boxes have collected. */
void mailbox_collect_all(struct mailbox *box, struct mailbox *const *from);
/* Removes the mail that was sent. */
void mailbox_clear(struct mailbox *box);

#endif
