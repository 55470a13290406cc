/* support_ofi_late.h - makes libfabric as late and as disordered as its contract allows.
 *
 * The providers on a test machine deliver at once and in order, even if they do not promise that.  Between
 * ofi_late_begin() and ofi_late_end(), endpoints that are opened hold writes, atomics and messages back for a random
 * number of polls.  An operation that must complete when it is delivered (FI_DELIVERY_COMPLETE) completes then, and its
 * source is read only when it leaves.  Every other operation completes early: its bytes are copied and leave later.  If
 * `ordered` is false, the provider says that it keeps no order, and operations leave in random order. */
#ifndef TESTS_SUPPORT_OFI_LATE_H
#define TESTS_SUPPORT_OFI_LATE_H

#ifdef HAVE_OFI
#    include <stdbool.h>
#    include <stdint.h>

void ofi_late_begin(bool ordered, uint64_t seed);
/* overtaken: operations that left after later ones.  early: operations that completed before they left. */
struct ofi_late_counts {
    uint64_t overtaken, early;
};
struct ofi_late_counts ofi_late_end(void);

#endif
#endif
