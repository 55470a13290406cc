/* parts.h - the nodes of a world as parts that run at one time; of very many nodes, some together.  Private to
 * models/hardware.
 *
 * Between nodes nothing is seen sooner than a while after it is sent: the window.  So each part runs by itself, from
 * the soonest event of all for one window, whatever the others do meanwhile.  Then each takes in the mail that came to
 * it (nic_mail.h), and then each learns what became of what it has sent.  A part is a struct world with an engine,
 * memory and counts of its own.  Ranks, ports and links stand in arrays that all parts share; a node's own are touched
 * by its part alone.  Links between switches are no node's: where there are some, one thread gives all mail its way.
 *
 * Which part a thread runs changes nothing, so results have the same bytes for any number of threads. */
#ifndef MODELS_HARDWARE_PARTS_H
#define MODELS_HARDWARE_PARTS_H

struct world;

enum { PARTS_MAX = 64 }; /* each looks at the box of each other one when a window ends */

/* Why the nodes of a world cannot be parts; NULL: they can.  The world's network must have been made. */
const char *parts_why_whole(const struct world *w);
/* Runs a world of parts until no part has anything left to do. */
void parts_run(struct world *whole);

#endif
