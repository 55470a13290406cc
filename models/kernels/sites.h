/* sites.h - the places in the libraries' code where kernels move rows, read index arrays, tell peers or call streams.
 *
 * An operation of models/fabric.h names a site.  The library's sheet, a .loops file in this folder, describes the
 * site's loop; loops.h reads it.  Each site has one line, and each line has a site; `make tidy` checks this.  So the
 * protocol says what is moved and to whom, a sheet says how the code does it, and a simulated world decides what that
 * costs.  A live world ignores sites.
 *
 * A line with `one-by-one` is for rows that a worker of one warp stores or copies, or for loads of a scan: each begins
 * when the one before is done, so operations of other workers may come between two.  Such an operation must be the last
 * one of its step, which then returns WORKER_MORE.  The next step comes when all are done. */
#ifndef MODELS_KERNELS_SITES_H
#define MODELS_KERNELS_SITES_H

#include <stdint.h>

/* The sizes that the sheet's line names in brackets, in the line's order.  They are sizes of the launch and facts about
 * the data, such as how many bytes the kernel reads altogether.  An operation without the struct gives only sizes of 0.
 * Each struct belongs to one site and one rank, must outlive the run, and must not change while a kernel runs. */
enum { SITE_SIZES = 4 };
struct site_given {
    uint64_t size[SITE_SIZES];
    uint32_t launch, slot; /* only the world uses them; the kernel sets both to 0 */
};

/* deepep-v1.loops: sites of low latency; then sites that the normal kernels share, within a node and between nodes. */
#define SITES_DEEPEP_V1(X) \
    X(LL_CAST_ROW) \
    X(LL_PACK_ROW) \
    X(LL_MESSAGE_ROW) \
    X(LL_COUNTS_ZERO) \
    X(LL_CHOICES_READ) \
    X(LL_CHOICES_REST) \
    X(LL_PEERS_READ) \
    X(LL_PEERS_AGAIN) \
    X(LL_WORD_FIRST) \
    X(LL_COUNT_LOOK) \
    X(LL_PLACE_TAKE) \
    X(LL_RECEIVE_ROW) \
    X(LL_FLAGS_ZERO) \
    X(LL_LAYOUT_READ) \
    X(LL_RETURN_ROW) \
    X(LL_RETURN_LOGS) \
    X(LL_CLEAN_LOOK) \
    X(LL_CHOICES_SUM) \
    X(LL_SUM_ROWS) \
    X(LL_SUM_LOGS) \
    X(HT_LAYOUT) \
    X(HT_BARRIER_FIRST) \
    X(HT_BARRIER_NEXT) \
    X(INTRA_CHANNEL_COUNT) \
    X(INTRA_GAPS) \
    X(INTRA_COUNTS_READ) \
    X(INTRA_COUNTS_SEND) \
    X(INTRA_COUNTS_SUM) \
    X(INTRA_MATRIX_READ) \
    X(INTRA_RANGES_READ) \
    X(INTRA_RETURN_RANGES_READ) \
    X(INTRA_HEAD_READ) \
    X(INTRA_HEAD_PEEK) \
    X(INTRA_FLAG_READ) \
    X(INTRA_FLAG_AGAIN) \
    X(INTRA_FLAG_SKIP) \
    X(INTRA_SEND_ROW) \
    X(INTRA_RECEIVE_ROW) \
    X(INTRA_RECEIVE_REST) \
    X(INTRA_RETURN_ROW) \
    X(INTRA_SUM_ROW) \
    X(INTER_QUIET) \
    X(INTER_COUNTS_SEND) \
    X(INTER_COUNTS_SUM) \
    X(INTER_CHANNEL_COUNT) \
    X(INTER_RANGES_READ) \
    X(INTER_FLAGS_READ) \
    X(INTER_PUT_ROW) \
    X(INTER_META_READ) \
    X(INTER_FORWARD_ROW) \
    X(INTER_RECEIVE_ROW) \
    X(INTER_RAIL_HEADS) \
    X(INTER_NVL_BATCHES) \
    X(INTER_NVL_HEADS) \
    X(INTER_RETURN_ROW) \
    X(INTER_MERGE_ROW) \
    X(INTER_SUM_ROW) \
    X(INTRA_RECEIVE_LOADS) \
    X(INTRA_SUM_LOADS) \
    X(INTER_FORWARD_LOADS) \
    X(INTER_RECEIVE_LOADS) \
    X(INTER_RETURN_LOADS) \
    X(INTER_MERGE_LOADS) \
    X(HT_BARRIER_RELEASE) \
    X(INTRA_COUNTS_SHOW) \
    X(INTRA_TELL) \
    X(INTER_META_PUT) \
    X(INTER_CHUNK_TELL) \
    X(LL_COUNT_TELL) \
    X(LL_FLAG_TELL) \
    X(HOST_WORD_POLL) \
    X(HOST_WORD_LOOK)

/* deepep-v2.loops */
#define SITES_DEEPEP_V2(X) \
    X(V2_BARRIER_LOOK) \
    X(V2_CHOICES_COUNT) \
    X(V2_COUNTS_SUM) \
    X(V2_TOKEN_STAGE) \
    X(V2_TOKEN_STAGE_CACHED) \
    X(V2_ROW_STAGE) \
    X(V2_ROW_STAGE_ALONE) \
    X(V2_STORE) \
    X(V2_STORE_ALONE) \
    X(V2_GATHER_ROW) \
    X(V2_MERGE_ROW) \
    X(V2_COPY_COUNTS) \
    X(V2_COPY_ROW) \
    X(V2_REDUCE_ROW)

/* tensorrt_llm.loops */
#define SITES_TENSORRT_LLM(X) \
    X(ONE_SIDED_ZERO) \
    X(ONE_SIDED_PLACES_TAKE) \
    X(ONE_SIDED_ROW) \
    X(ONE_SIDED_ROW_AGAIN) \
    X(ONE_SIDED_SANITIZE) \
    X(ONE_SIDED_STAGE) \
    X(ONE_SIDED_PLACES_READ) \
    X(ONE_SIDED_PLACES_AGAIN) \
    X(ONE_SIDED_PULL) \
    X(ONE_SIDED_SUM) \
    X(TWO_SIDED_COUNT) \
    X(TWO_SIDED_COUNT_PEEK) \
    X(TWO_SIDED_PLACES) \
    X(TWO_SIDED_START) \
    X(TWO_SIDED_SEND) \
    X(TWO_SIDED_SEND_BACK) \
    X(TWO_SIDED_LOOK) \
    X(TWO_SIDED_RECEIVE) \
    X(TWO_SIDED_RECEIVE_BACK) \
    X(TWO_SIDED_FILL) \
    X(TWO_SIDED_SUM) \
    X(TWO_SIDED_TELL) \
    X(ONE_SIDED_TELL)

/* mori.loops */
#define SITES_MORI(X) \
    X(MORI_SLOTS_TAKE) \
    X(MORI_SEND_ROW) \
    X(MORI_CHOICES_READ) \
    X(MORI_LL_ROW) \
    X(MORI_LL_ROW_AGAIN) \
    X(MORI_PULL) \
    X(MORI_PULLED_SUM) \
    X(MORI_CAME_SUM) \
    X(MORI_STAGE_ROW) \
    X(MORI_CHUNK_READ) \
    X(MORI_RELAY_READ) \
    X(MORI_NEAR_ROW) \
    X(MORI_RELAY_ROW) \
    X(MORI_NODES_SUM) \
    X(MORI_TELL)

/* deepgemm.loops */
#define SITES_DEEPGEMM(X) \
    X(MEGA_CAST) \
    X(MEGA_COUNT) \
    X(MEGA_PLACES) \
    X(MEGA_TOLD) \
    X(MEGA_LIST) \
    X(MEGA_PEER_PART) \
    X(MEGA_PULL) \
    X(MEGA_WEIGHTS) \
    X(MEGA_WEIGHTS_AGAIN) \
    X(MEGA_ROWS) \
    X(MEGA_ROWS_AWAITED) \
    X(MEGA_MULTIPLY) \
    X(MEGA_ACTIVATE) \
    X(MEGA_RETURN) \
    X(MEGA_SUM)

/* pplx.loops */
#define SITES_PPLX(X) \
    X(PPLX_CHOICES_COUNT) \
    X(PPLX_CHOICES_SUM) \
    X(PPLX_PLACES_READ) \
    X(PPLX_STAGE_ROW) \
    X(PPLX_LOAD_ROW) \
    X(PPLX_STORE_ROW) \
    X(PPLX_ROW_READ) \
    X(PPLX_PEERS_PEEK) \
    X(PPLX_TAKE_ROW) \
    X(PPLX_PULL_ROW) \
    X(PPLX_KEEP_ROW) \
    X(PPLX_RETURN_ROWS) \
    X(PPLX_SUM) \
    X(PPLX_COUNTS_SUM) \
    X(PPLX_ROWS_LIST) \
    X(PPLX_COUNTS_SEND) \
    X(PPLX_TELL) \
    X(PPLX_PUT)

/* hybrid_ep.loops: what it does otherwise than NCCL EP's high throughput */
#define SITES_HYBRID_EP(X) \
    X(HYBRID_EP_SCAN) \
    X(HYBRID_EP_ASK) \
    X(HYBRID_EP_PLACES) \
    X(HYBRID_EP_ADD) \
    X(HYBRID_EP_ROUND)

/* nccl_ep.loops: high throughput, low latency */
#define SITES_NCCL_EP(X) \
    X(NCCL_HT_SCAN) \
    X(NCCL_HT_SCAN_ROWS) \
    X(NCCL_HT_SCAN_BEFORE) \
    X(NCCL_HT_REMAP) \
    X(NCCL_HT_REMAP_OWN) \
    X(NCCL_HT_REMAP_SUMS) \
    X(NCCL_HT_START) \
    X(NCCL_HT_MAP_READ) \
    X(NCCL_HT_LOAD) \
    X(NCCL_HT_ASK) \
    X(NCCL_HT_STORE) \
    X(NCCL_HT_GAP) \
    X(NCCL_HT_TAIL_READ) \
    X(NCCL_HT_TELL) \
    X(NCCL_HT_LOOK) \
    X(NCCL_HT_PLACES_READ) \
    X(NCCL_HT_ASK_ROW) \
    X(NCCL_HT_FETCH) \
    X(NCCL_HT_PULL) \
    X(NCCL_HT_ADD) \
    X(NCCL_HT_ROUND) \
    X(NCCL_HT_SUM_STORE) \
    X(NCCL_HT_SUMS_LOOK) \
    X(NCCL_HT_NODE_LOOK) \
    X(NCCL_EP_LL_HEADER) \
    X(NCCL_EP_LL_CAST_ROW) \
    X(NCCL_EP_LL_STAGE_ROW) \
    X(NCCL_EP_LL_SLOT_TAKE) \
    X(NCCL_EP_LL_PEERS) \
    X(NCCL_EP_LL_PEERS_AGAIN) \
    X(NCCL_EP_LL_CAST_SEND) \
    X(NCCL_EP_LL_SEND) \
    X(NCCL_EP_LL_COUNTS_ZERO) \
    X(NCCL_EP_LL_CHOICES_READ) \
    X(NCCL_EP_LL_CHOICES_COUNT) \
    X(NCCL_EP_LL_COUNT_TELL) \
    X(NCCL_EP_LL_COUNT_LOOK) \
    X(NCCL_EP_LL_ARRIVE) \
    X(NCCL_EP_LL_ARRIVED) \
    X(NCCL_EP_LL_SKIP) \
    X(NCCL_EP_LL_RECEIVE_PAIR) \
    X(NCCL_EP_LL_RECEIVE_TOKEN) \
    X(NCCL_EP_LL_FLAGS_ZERO) \
    X(NCCL_EP_LL_LAYOUT_READ) \
    X(NCCL_EP_LL_RETURN_ROW) \
    X(NCCL_EP_LL_CLEAN_LOOK) \
    X(NCCL_EP_LL_FLAG_TELL) \
    X(NCCL_EP_LL_CHOICES_SUM) \
    X(NCCL_EP_LL_SUM_ROWS)

/* nccl.loops */
#define SITES_NCCL(X) \
    X(NCCL_STORE) \
    X(NCCL_SIMPLE) \
    X(NCCL_LL) \
    X(NCCL_LL128) \
    X(NCCL_START) \
    X(NCCL_SHARE) \
    X(NCCL_FUNCTION) \
    X(COPY_ENGINE) \
    X(NCCL_TELL) \
    X(NCCL_FLAGS) \
    X(NCCL_HAND) \
    X(NCCL_HAND_LL) \
    X(NCCL_PUT) \
    X(NVSHMEM_BARRIER) \
    X(NVSHMEM_GET) \
    X(HOST_PUT) \
    X(HOST_AWAIT) \
    X(HOST_LAUNCH) \
    X(ARITHMETIC) \
    X(HOST_WAIT)

/* Of several sheets: whole kernels, additions to a rank's own words, and what the host does.  They read no arrays. */
#define SITES_UNREAD(X) \
    X(LL_KERNEL) \
    X(LL_FINISH_LANE) \
    X(LL_GRID_COME) \
    X(LL_GRID_OPEN) \
    X(LL_BLOCK_ADD) \
    X(HT_PAIRS) \
    X(HT_SHARED_ADD) \
    X(MEGA_SHARED_ADD) \
    X(MEGA_WAKE_LANE) \
    X(PPLX_LAUNCH) \
    X(NCCL_HT_SHARED_ADD) \
    X(NCCL_EP_LL_KERNEL) \
    X(NCCL_EP_LL_DONE_LANE) \
    X(NCCL_EP_LL_BLOCK_ADD) \
    X(NCCL_EP_LL_GRID_COME) \
    X(NCCL_EP_LL_GRID_OPEN) \
    X(NCCL_KERNEL) \
    X(NCCL_SIZE_PUT) \
    X(STREAM_COPY) \
    X(STREAM_WORD)

#define SITES_ALL(X) \
    SITES_DEEPEP_V1(X) \
    SITES_DEEPEP_V2(X) \
    SITES_NCCL(X) \
    SITES_TENSORRT_LLM(X) \
    SITES_MORI(X) SITES_DEEPGEMM(X) SITES_PPLX(X) SITES_HYBRID_EP(X) SITES_NCCL_EP(X) SITES_UNREAD(X)

/* SITE_NONE: no sheet describes the loop, which only signals, additions and puts may say.  Signals then have no extra
 * cost.  Additions are atomics of the whole GPU that release earlier stores. */
enum site {
    SITE_NONE,
#define SITE(name) SITE_##name,
    SITES_ALL(SITE)
#undef SITE
        SITES
};

#endif
