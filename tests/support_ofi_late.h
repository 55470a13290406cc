/* support_ofi_late.h - libfabric as late and as disordered as its own contract allows.
 *
 * Providers at hand deliver at once and in order, whatever they promise.  Between ofi_late_begin() and ofi_late_end(),
 * endpoints that are opened hold writes, atomics and messages back for a random number of polls.  What is asked to
 * complete when it is delivered (FI_DELIVERY_COMPLETE) completes then, and its source is read no sooner than it leaves.
 * All else completes early: its bytes are copied, and leave later.  With ordered false the provider says that it keeps
 * no order, and operations leave in a random one. */
#ifndef TESTS_SUPPORT_OFI_LATE_H
#define TESTS_SUPPORT_OFI_LATE_H

#ifdef HAVE_OFI
#    include <stdbool.h>
#    include <stdint.h>

void ofi_late_begin(bool ordered, uint64_t seed);
/* How many operations left after others that were posted later; how many completed before they left. */
struct ofi_late_counts {
    uint64_t overtaken, early;
};
struct ofi_late_counts ofi_late_end(void);

#endif
#endif
