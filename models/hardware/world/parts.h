/* parts.h - the nodes of a world as parts that run at the same time.  In a world of more than PARTS_MAX nodes, several
 * nodes form one part.  Private to models/hardware.
 *
 * A node sees what another node sends only after a while: the window.  So each part runs by itself for one window, from
 * the soonest event of all parts, whatever the others do meanwhile.  Then each part takes in the mail that came to it
 * (nic_mail.h).  Then each part learns when its own mail arrived.  A part is a struct world with its own engine, memory
 * and counts.  Ranks, ports and links stand in arrays that all parts share, but only a node's own part touches that
 * node's entries.  Links between switches belong to no node, and the draws of DCQCN's marks belong to the whole world.
 * In a world with either, one thread plans the way of all mail.
 *
 * Results have the same bytes for any number of threads, because it does not matter which thread runs a part. */
#ifndef MODELS_HARDWARE_PARTS_H
#define MODELS_HARDWARE_PARTS_H

struct world;

enum { PARTS_MAX = 64 }; /* when a window ends, each part reads the box of every other part */

/* Why the nodes of a world cannot be parts.  NULL: they can be.  The world's network must have been made. */
const char *parts_why_whole(const struct world *w);
/* Runs a world of parts until no part has anything left to do.  Before that, begin() is called for each part, by
 * several threads at a time. */
void parts_run(struct world *whole, void (*begin)(struct world *part));

#endif
