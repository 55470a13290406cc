/* nic_mail.h - quanta on their way to the port of a peer.  Private to models/hardware.
 *
 * The peer takes a quantum in as soon as it is sent; or, where the nodes of a world are parts that run at one time
 * (parts.h), when the window has ended in which it was sent.  Until then it is mail.  A node reads the mail that came
 * to it in the order of sending times.  Mail with equal times is read by source node, and mail of one node in the order
 * in which it was sent.  What became of a quantum is written into it, and its source reads that in turn. */
#ifndef MODELS_HARDWARE_NIC_MAIL_H
#define MODELS_HARDWARE_NIC_MAIL_H

#include <stdbool.h>
#include <stdint.h>

struct request;

struct mail {
    uint64_t sent_ps, head_ps; /* when its port's turn was; when its first byte comes to the network */
    uint64_t there_ps;         /* when its last byte does; once it has been given its way: when it is at the peer */
    uint64_t acked_ps;         /* when the source knows that it is there; 0: that is not known yet */
    struct request *request;   /* the source's, until it has been told */
    uint32_t size_bytes;
    uint32_t next; /* the next mail to that part: place + 1; 0: none */
    bool last;     /* of its request */
    bool lands;    /* the request itself is an event of the peer now */
};

struct mail_due {
    uint64_t sent_ps;
    struct mail *mail;
};

/* What a part has sent, and what has come to it, in this window. */
struct mailbox {
    struct mail *mail; /* [count] as sent */
    uint32_t count, max;
    uint32_t *first, *last;      /* [parts] the first and last mail to each part: place + 1; 0: none */
    struct mail_due *in, *spare; /* [in_count] in the order in which it is read; room to sort */
    uint32_t in_count, in_max;
    uint32_t *run; /* [parts + 1] where sorted stretches of `in` begin */
    uint32_t parts;
};

struct mailbox *mailbox_new(uint32_t parts);
void mailbox_free(struct mailbox *box);
/* Leaves a copy of mail for a part. */
void mailbox_send(struct mailbox *box, uint32_t to, const struct mail *mail);
/* Fills box->in with what all boxes have for the part with this number.  If box is not one of them, it gets all that
 * they have. */
void mailbox_collect(struct mailbox *box, struct mailbox *const *from, uint32_t number);
void mailbox_collect_all(struct mailbox *box, struct mailbox *const *from);
/* Forgets what was sent. */
void mailbox_clear(struct mailbox *box);

#endif
