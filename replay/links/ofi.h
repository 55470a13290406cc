/* ofi.h - a rank's libfabric endpoint, and the memory registered with it.  ofi_library.c loads libfabric, ofi_port.c
 * opens and connects the endpoint, and link_ofi.c uses it. */
#ifndef REPLAY_OFI_H
#define REPLAY_OFI_H

#include "replay/live.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <signal.h>

/* The functions of libfabric that are found by name.  All others are called through libfabric's objects. */
struct ofi_library {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    struct fi_info *(*dupinfo)(const struct fi_info *info); /* dupinfo(NULL) makes an empty one */
    void (*freeinfo)(struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int code);
};
/* Returns libfabric's functions.  The first call loads the library.  Any thread may call this function.  NULL and
 * *error if libfabric is not installed. */
const struct ofi_library *ofi_library_load(GError **error);

/* The signals of this process are blocked around a call that may load a library of libfabric.  After the call, their
 * earlier handling is restored.  If several threads do this, they wait for each other. */
struct ofi_signals {
    sigset_t mask;
    bool known[NSIG];
    struct sigaction action[NSIG];
};
void ofi_signals_hold(struct ofi_signals *s);
void ofi_signals_release(const struct ofi_signals *s);

/* The operation that carries a signal. */
enum ofi_carrier {
    OFI_CARRY_WRITE,   /* an RMA write of the 8-byte value, for providers that place all 8 bytes at once */
    OFI_CARRY_ATOMIC,  /* an atomic sum of the difference to the value last sent */
    OFI_CARRY_MESSAGE, /* a message {value, word}, from which the receiver's progress() sets the word */
};

enum { OFI_TOKEN_BYTES = 16 };

/* A buffer in registered memory.  Small operations send from it, and messages arrive in it.
 *
 * Anybody who reaches the port can send messages.  A receiver accepts a message only if it has this size, names a
 * peer as its sender, carries this peer's token, and names a signal word.  Peers tell each other their tokens
 * through the bootstrap.  Other messages are dropped and counted.
 *
 * Two gaps remain.  Tokens cross the network in clear, so anybody who can read the traffic can forge messages.  RMA
 * writes are guarded only by their key.  Some providers (tcp, sockets, shm) let this program choose the key, or
 * number keys in order. */
struct ofi_message {
    uint64_t value;
    uint32_t word;                  /* the signal word; OFI_HELLO if the sender only greets; with bit OFI_ADD set, value
                                     * is added to the word */
    uint32_t rank;                  /* the sender */
    uint8_t token[OFI_TOKEN_BYTES]; /* the sender's token */
};
_Static_assert(sizeof(struct ofi_message) == 32, "crosses the link");
#define OFI_HELLO UINT32_MAX
#define OFI_ADD   (UINT32_C(1) << 31)

/* Where the registered memory of a peer is, for RMA. */
struct ofi_target {
    fi_addr_t address;
    uint64_t memory_base, memory_key; /* words and heap */
    uint64_t arena_base, arena_key;   /* its messages; writes that nobody reads go to the first of them */
    uint8_t token[OFI_TOKEN_BYTES];   /* the token that its messages must carry */
};

struct ofi_port {
    const struct ofi_library *library;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *memory_mr, *arena_mr;
    enum ofi_carrier carrier;
    /* Whether the provider delivers a write or message after all earlier ones to the same peer.  If not, a
     * signal may be posted only when the earlier puts of its queue are known to be delivered. */
    bool ordered;
    uint32_t send_count, receive_count; /* operations in flight */
    struct ofi_message *arena;          /* [1 + send_count + receive_count] */
    struct ofi_target *target;          /* [rank] */
    char *provider;                     /* the provider's name for itself */
    char *names; /* what the names of all ranks' shared-memory objects begin with; NULL if they have no names */
};

/* This rank's place among the others, and the settings on which all ranks agreed. */
struct ofi_place {
    bool one_host;                     /* whether all ranks are on this host */
    uint32_t local_rank;               /* index among the ranks of this host */
    uint64_t run;                      /* a number that only this run has; not secret */
    uint8_t (*token)[OFI_TOKEN_BYTES]; /* [rank], secret; free with ofi_place_clear() */
};
/* Fills in *place.  Collective. */
bool ofi_place_find(struct ofi_place *place, struct bootstrap *b, GError **error);
void ofi_place_clear(struct ofi_place *place);

/* What a rank tells the others about its endpoint. */
enum { OFI_NAME_BYTES = 256, OFI_PROVIDER_BYTES = 64, OFI_FAILURE_BYTES = 256 };
struct ofi_card {
    char failure[OFI_FAILURE_BYTES]; /* why the rank has failed; "" if it has not failed */
    char provider[OFI_PROVIDER_BYTES];
    uint8_t name[OFI_NAME_BYTES]; /* its address */
    uint64_t memory_base, memory_key, arena_base, arena_key;
    uint32_t carrier, ordered;
};
_Static_assert(sizeof(struct ofi_card) == 616, "crosses the bootstrap");

/* Chooses a provider, opens an endpoint and registers the memory.  *p must be zero.  Even after a failure,
 * ofi_port_close() must follow.  If o->device is a list, each rank takes the entry with the index of its local rank.
 * Without a device, the ranks of one host use loopback if the provider supports it. */
bool ofi_port_open(struct ofi_port *p, const struct live_options *o, const struct fabric_needs *needs,
                   const struct ofi_place *place, const struct bootstrap *b, const struct live_memory *memory,
                   GError **error);
/* Exchanges addresses and keys.  Collective: a rank that has already failed must also call it, with its failure,
 * which becomes *error.  Other ranks pass NULL.  The first messages make the connections later. */
bool ofi_port_exchange(struct ofi_port *p, struct bootstrap *b, const struct live_memory *memory, const bool *remote,
                       GError *failure, GError **error);
/* Removes the names of this run's shared-memory objects, including those of ranks that have died.  It is called when
 * all ranks have opened all objects, so that no crash after this call leaves a name behind.  If a run fails earlier,
 * ofi_port_close() removes the names. */
void ofi_port_hide(struct ofi_port *p);
void ofi_port_close(struct ofi_port *p);

#endif
