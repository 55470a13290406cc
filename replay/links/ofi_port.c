/* ofi_port.c - chooses a libfabric provider, opens an endpoint, registers memory, and exchanges addresses.
 *
 * Most properties of a provider are capabilities that it reports.  Two are not reported, so this file lists the
 * providers that have them: those that place an 8-byte word at once, and those whose endpoints have a name in the
 * file system. */
#ifdef HAVE_OFI
#    include "replay/links/ofi.h"

#    include <errno.h>
#    include <rdma/fi_atomic.h>
#    include <string.h>
#    include <sys/mman.h>
#    include <sys/random.h>
#    include <unistd.h>

enum {
    OFI_API = FI_VERSION(1, 15),
    OFI_SENDS_MAX = 4096,
    OFI_RECEIVES_MAX = 256,
    /* Keys of registrations, for providers that let us choose them. */
    OFI_KEY_MEMORY = 1,
    OFI_KEY_ARENA = 2,
};

/* Writes stay after earlier writes, and messages stay after earlier writes and messages. */
static const uint64_t OFI_ORDER = FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_SAS;

/* If no provider is named, the first of these that this machine offers is used. */
static const char *const preferred[] = { "cxi", "efa", "verbs", "tcp" };

static bool ofi_refuse(const struct ofi_port *p, const char *what, int rc, GError **error)
{
    return error_run(error, "libfabric%s%s: %s: %s", p->provider ? " " : "", p->provider ? p->provider : "", what,
                     p->library->strerror(-rc));
}

/* --- the place --- */

/* What a rank sends in the first exchange. */
struct ofi_place_card {
    char host[104];
    uint64_t run;
    uint8_t token[OFI_TOKEN_BYTES];
};
_Static_assert(sizeof(struct ofi_place_card) == 128, "crosses the bootstrap");

static void ofi_place_card_fill(struct ofi_place_card *card)
{
    g_autofree char *boot = NULL, *space = g_file_read_link("/proc/self/ns/net", NULL);
    g_file_get_contents("/proc/sys/kernel/random/boot_id", &boot, NULL, NULL);
    g_snprintf(card->host, sizeof card->host, "%s %s", boot ? g_strchomp(boot) : g_get_host_name(), space ? space : "");
    g_assert(getrandom(&card->run, sizeof card->run, 0) == sizeof card->run);
    g_assert(getrandom(card->token, sizeof card->token, 0) == sizeof card->token);
}

bool ofi_place_find(struct ofi_place *place, struct bootstrap *b, GError **error)
{
    struct ofi_place_card own = { .host = "" };
    g_autofree struct ofi_place_card *cards = g_new0(struct ofi_place_card, b->rank_count);
    ofi_place_card_fill(&own);
    if (!bootstrap_allgather(b, &own, sizeof own, cards, error)) return false;
    *place = (struct ofi_place){ .one_host = true,
                                 .run = cards[0].run,
                                 .token = g_malloc_n(b->rank_count, OFI_TOKEN_BYTES) };
    for (uint32_t r = 0; r < b->rank_count; r++) {
        const bool here = memcmp(cards[r].host, own.host, sizeof own.host) == 0;
        place->one_host &= here;
        place->local_rank += here && r < b->rank;
        memcpy(place->token[r], cards[r].token, OFI_TOKEN_BYTES);
    }
    return true;
}

void ofi_place_clear(struct ofi_place *place) { g_clear_pointer(&place->token, g_free); }

/* --- choosing --- */

/* Whether the provider places an 8-byte word at once.  Providers that receive from a stream may show a word of which
 * only a part is written.  With them, signals are messages. */
static bool places_words_at_once(const char *provider)
{
    static const char *const known[] = { "verbs", "efa", "cxi", "shm", "psm" };
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
        if (g_str_has_prefix(provider, known[i])) return true;
    return false;
}

static struct fi_info *ofi_hints(const struct ofi_library *library, const char *provider, uint64_t caps, uint64_t order)
{
    struct fi_info *const hints = library->dupinfo(NULL);
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (provider) hints->fabric_attr->prov_name = strdup(provider);
    return hints;
}

/* Whether `found` is a provider that makes datagrams reliable (ofi_rxd), and `asked` is neither udp nor names ofi_rxd.
 * Such a provider is for networks that have no better one.  So it is used only if it is asked for. */
static bool is_second_choice(const char *asked, const char *found)
{
    return strstr(found, "ofi_rxd") && !g_str_has_prefix(asked, "udp") && !strstr(asked, "ofi_rxd");
}

/* Returns the first provider that fits, on the requested device.  Free the result with library->freeinfo(). */
static struct fi_info *ofi_pick(const struct ofi_library *library, struct fi_info *list, const char *provider,
                                const char *device)
{
    for (const struct fi_info *i = list; i; i = i->next)
        if ((!device || strcmp(i->domain_attr->name, device) == 0) &&
            !is_second_choice(provider, i->fabric_attr->prov_name))
            return library->dupinfo(i);
    return NULL;
}

/* Tells libfabric the number of ranks, because providers size their queues by it.  Their default is more than some
 * devices have room for.  libfabric reads the environment variable at its first call.  A value that the user has set
 * stays. */
static void ofi_tell_rank_count(uint32_t rank_count)
{
    static gsize told;
    if (!g_once_init_enter(&told)) return;
    char text[16];
    g_snprintf(text, sizeof text, "%u", MAX(rank_count, 2));
    g_setenv("FI_UNIVERSE_SIZE", text, FALSE);
    g_once_init_leave(&told, 1);
}

static struct fi_info *ofi_query(const struct ofi_library *library, const char *provider, const char *device,
                                 uint64_t caps, uint64_t order)
{
    struct fi_info *const hints = ofi_hints(library, provider, caps, order);
    struct fi_info *list = NULL, *found = NULL;
    if (library->getinfo(OFI_API, NULL, NULL, 0, hints, &list) == 0) found = ofi_pick(library, list, provider, device);
    if (list) library->freeinfo(list);
    library->freeinfo(hints);
    return found;
}

/* Whether the provider keeps the order of writes and messages of all sizes up to the largest put. */
static bool ofi_is_ordered(const struct fi_info *info, uint64_t size_bytes_max)
{
    return (info->tx_attr->msg_order & OFI_ORDER) == OFI_ORDER && (info->rx_attr->msg_order & OFI_ORDER) == OFI_ORDER &&
           info->ep_attr->max_order_waw_size >= size_bytes_max;
}

/* Chooses the provider.  A provider may drop an order that it could keep, unless the order is requested.  So full
 * order is requested first, although it may cost speed.  If no provider has it, less order is requested. */
static bool ofi_choose_provider(struct ofi_port *p, const char *provider, const char *device,
                                const struct live_options *o, uint64_t size_bytes_max)
{
    const uint64_t caps = FI_MSG | FI_RMA | (o->signalling == LIVE_SIGNAL_ATOMIC ? FI_ATOMIC : 0);
    static const uint64_t orders[] = { OFI_ORDER, FI_ORDER_SAS, 0 };
    for (size_t i = 0; i < G_N_ELEMENTS(orders) && !p->info; i++)
        p->info = ofi_query(p->library, provider, device, caps, orders[i]);
    if (!p->info) return false;
    p->provider = g_strdup(p->info->fabric_attr->prov_name);
    p->ordered = ofi_is_ordered(p->info, size_bytes_max);
    if (o->signalling == LIVE_SIGNAL_ATOMIC) p->carrier = OFI_CARRY_ATOMIC;
    else if (o->signalling == LIVE_SIGNAL_WRITE && places_words_at_once(p->provider)) p->carrier = OFI_CARRY_WRITE;
    else p->carrier = OFI_CARRY_MESSAGE;
    return true;
}

static char *ofi_found_providers(const struct ofi_library *library, const char *device)
{
    struct fi_info *const hints = ofi_hints(library, NULL, FI_MSG | FI_RMA, 0);
    struct fi_info *list = NULL;
    GString *const text = g_string_new(NULL);
    if (library->getinfo(OFI_API, NULL, NULL, 0, hints, &list) != 0) list = NULL;
    for (const struct fi_info *i = list; i; i = i->next) {
        g_autofree char *one = device ? g_strdup_printf("%s on %s", i->fabric_attr->prov_name, i->domain_attr->name)
                                      : g_strdup(i->fabric_attr->prov_name);
        if (!strstr(text->str, one)) g_string_append_printf(text, "%s%s", text->len ? ", " : "", one);
    }
    if (list) library->freeinfo(list);
    library->freeinfo(hints);
    return g_string_free(text, FALSE);
}

static void ofi_choose_refuse(const struct ofi_port *p, const struct live_options *o, const char *device,
                              GError **error)
{
    g_autofree char *found = ofi_found_providers(p->library, device);
    error_run(error, "libfabric: expected provider %s%s%s with RMA%s, found %s",
              o->provider ? o->provider : "cxi, efa, verbs or tcp", device ? " on " : "", device ? device : "",
              o->signalling == LIVE_SIGNAL_ATOMIC ? " and atomics" : "", *found ? found : "none");
}

static bool ofi_choose_near(struct ofi_port *p, const char *provider, const char *device, const struct live_options *o,
                            const struct ofi_place *place, uint64_t size_bytes_max)
{
    return (!device && place->one_host && ofi_choose_provider(p, provider, "lo", o, size_bytes_max)) ||
           ofi_choose_provider(p, provider, device, o, size_bytes_max);
}

static bool ofi_choose(struct ofi_port *p, const struct live_options *o, const struct ofi_place *place,
                       uint64_t size_bytes_max, GError **error)
{
    g_auto(GStrv) devices = g_strsplit(o->device ? o->device : "", ",", 0);
    const uint32_t device_count = g_strv_length(devices);
    const char *const device = device_count ? devices[place->local_rank % device_count] : NULL;
    bool chosen = false;
    for (size_t i = 0; i < G_N_ELEMENTS(preferred) && !o->provider && !chosen; i++)
        chosen = ofi_choose_near(p, preferred[i], device, o, place, size_bytes_max);
    if (o->provider) chosen = ofi_choose_near(p, o->provider, device, o, place, size_bytes_max);
    if (!chosen) ofi_choose_refuse(p, o, device, error);
    return chosen;
}

/* --- opening --- */

static int ofi_register(struct ofi_port *p, void *base, size_t size_bytes, uint64_t key, struct fid_mr **mr)
{
    const uint64_t access = FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE | FI_READ | FI_REMOTE_READ;
    int rc = fi_mr_reg(p->domain, base, size_bytes, access, 0, key, 0, mr, NULL);
    if (rc || !(p->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) return rc;
    rc = fi_mr_bind(*mr, &p->ep->fid, 0);
    return rc ? rc : fi_mr_enable(*mr);
}

static char *ofi_family_names(const struct live_options *o)
{
    return g_strdup_printf("eptwin-%u-%016" G_GINT64_MODIFIER "x-", (unsigned)getuid(), o->family);
}

/* Names the endpoint, if its provider gives endpoints a name in the file system.  The name contains the number of
 * the run, so that any rank can remove the names of ranks that died early.  It also contains the family, so that a
 * parent can remove all names when all ranks have died. */
static int ofi_name_endpoint(struct ofi_port *p, const struct live_options *o, const struct ofi_place *place,
                             uint32_t rank)
{
    if (strcmp(p->provider, "shm") != 0) return 0;
    g_autofree char *family = ofi_family_names(o);
    p->names = g_strdup_printf("%s%016" G_GINT64_MODIFIER "x-", family, place->run);
    g_autofree char *name = g_strdup_printf("fi_shm://%s%u", p->names, rank);
    return fi_setname(&p->ep->fid, name, strlen(name) + 1);
}

static int ofi_open_endpoint(struct ofi_port *p, const struct live_options *o, const struct ofi_place *place,
                             uint32_t rank)
{
    struct fi_av_attr av = { .type = FI_AV_TABLE };
    struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG,
                             .wait_obj = FI_WAIT_NONE,
                             .size = p->send_count + p->receive_count };
    int rc = p->library->fabric(p->info->fabric_attr, &p->fabric, NULL);
    if (!rc) rc = fi_domain(p->fabric, p->info, &p->domain, NULL);
    if (!rc) rc = fi_av_open(p->domain, &av, &p->av, NULL);
    if (!rc) rc = fi_cq_open(p->domain, &cq, &p->cq, NULL);
    if (!rc) rc = fi_endpoint(p->domain, p->info, &p->ep, NULL);
    if (!rc) rc = ofi_name_endpoint(p, o, place, rank);
    if (!rc) rc = fi_ep_bind(p->ep, &p->av->fid, 0);
    if (!rc) rc = fi_ep_bind(p->ep, &p->cq->fid, FI_TRANSMIT | FI_RECV);
    return rc ? rc : fi_enable(p->ep);
}

static int ofi_open_memory(struct ofi_port *p, const struct live_memory *memory)
{
    const size_t arena_bytes = sizeof *p->arena * (1 + p->send_count + p->receive_count);
    p->arena = g_malloc0(arena_bytes);
    const int rc = ofi_register(p, memory->base, memory->size_bytes, OFI_KEY_MEMORY, &p->memory_mr);
    return rc ? rc : ofi_register(p, p->arena, arena_bytes, OFI_KEY_ARENA, &p->arena_mr);
}

static bool ofi_port_set_up(struct ofi_port *p, const struct live_options *o, const struct fabric_needs *needs,
                            const struct ofi_place *place, const struct bootstrap *b, const struct live_memory *memory,
                            GError **error)
{
    const uint32_t rank_count = b->rank_count;
    const uint64_t wanted = (uint64_t)rank_count * needs->queue_count * needs->queue_depth * 2 + rank_count;
    if (!ofi_choose(p, o, place, memory->size_bytes, error)) return false;
    p->send_count = (uint32_t)MIN(MIN(wanted, OFI_SENDS_MAX), p->info->tx_attr->size);
    p->receive_count = (uint32_t)MIN(OFI_RECEIVES_MAX, p->info->rx_attr->size);
    p->target = g_new0(struct ofi_target, rank_count);
    for (uint32_t r = 0; r < rank_count; r++) memcpy(p->target[r].token, place->token[r], OFI_TOKEN_BYTES);
    int rc = ofi_open_endpoint(p, o, place, b->rank);
    if (rc) return ofi_refuse(p, "cannot open an endpoint", rc, error);
    rc = ofi_open_memory(p, memory);
    if (rc == -FI_ENOMEM || rc == -FI_EPERM) return ofi_refuse(p, "cannot register memory, see ulimit -l", rc, error);
    if (rc) return ofi_refuse(p, "cannot register memory", rc, error);
    size_t count = 0;
    if (p->carrier == OFI_CARRY_ATOMIC && fi_atomicvalid(p->ep, FI_UINT64, FI_SUM, &count) != 0)
        return ofi_refuse(p, "no atomic sum of 64-bit words; use --signalling write", -FI_EOPNOTSUPP, error);
    return true;
}

bool ofi_port_open(struct ofi_port *p, const struct live_options *o, const struct fabric_needs *needs,
                   const struct ofi_place *place, const struct bootstrap *b, const struct live_memory *memory,
                   GError **error)
{
    struct ofi_signals signals;
    ofi_tell_rank_count(b->rank_count);
    p->library = ofi_library_load(error);
    if (!p->library) return false;
    ofi_signals_hold(&signals);
    const bool fine = ofi_port_set_up(p, o, needs, place, b, memory, error);
    ofi_signals_release(&signals);
    return fine;
}

/* --- exchanging --- */

static bool ofi_card_fill(const struct ofi_port *p, const struct live_memory *memory, struct ofi_card *card,
                          GError **error)
{
    const bool virtual = p->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    size_t name_bytes = sizeof card->name;
    const int rc = fi_getname(&p->ep->fid, card->name, &name_bytes);
    if (rc) return ofi_refuse(p, "cannot learn its own address", rc, error);
    g_strlcpy(card->provider, p->provider, sizeof card->provider);
    card->carrier = p->carrier;
    card->ordered = p->ordered;
    card->memory_key = fi_mr_key(p->memory_mr);
    card->arena_key = fi_mr_key(p->arena_mr);
    card->memory_base = virtual ? (uintptr_t)memory->base : 0;
    card->arena_base = virtual ? (uintptr_t)p->arena : 0;
    return true;
}

static bool ofi_card_check(const struct ofi_port *p, uint32_t rank, const struct ofi_card *card,
                           const struct ofi_card *own, GError **error)
{
    g_autofree char *failure = text_printable(card->failure, sizeof card->failure);
    g_autofree char *provider = text_printable(card->provider, sizeof card->provider);
    if (*failure) g_set_error(error, LIVE_ERROR, LIVE_PEER_FAILED, "rank %u: %s", rank, failure);
    else if (strncmp(card->provider, own->provider, sizeof card->provider) != 0)
        error_run(error, "libfabric: rank %u uses %s, this one %s: name a --provider", rank, provider, own->provider);
    else if (card->carrier != own->carrier || card->ordered != own->ordered)
        error_run(error, "libfabric %s: rank %u signals otherwise than this one", p->provider, rank);
    else return true;
    return false;
}

static bool ofi_targets_fill(struct ofi_port *p, const struct bootstrap *b, const bool *remote,
                             const struct ofi_card *cards, GError **error)
{
    for (uint32_t r = 0; r < b->rank_count; r++)
        if (!ofi_card_check(p, r, &cards[r], &cards[b->rank], error)) return false;
    for (uint32_t r = 0; r < b->rank_count; r++) {
        struct ofi_target *const t = &p->target[r];
        if (!remote[r]) continue;
        t->memory_base = cards[r].memory_base;
        t->memory_key = cards[r].memory_key;
        t->arena_base = cards[r].arena_base;
        t->arena_key = cards[r].arena_key;
        const int rc = fi_av_insert(p->av, cards[r].name, 1, &t->address, 0, NULL);
        if (rc != 1) return ofi_refuse(p, "cannot use a peer's address", rc < 0 ? rc : -FI_EADDRNOTAVAIL, error);
    }
    return true;
}

bool ofi_port_exchange(struct ofi_port *p, struct bootstrap *b, const struct live_memory *memory, const bool *remote,
                       GError *failure, GError **error)
{
    struct ofi_card own = { .failure = "" };
    g_autofree struct ofi_card *cards = g_new0(struct ofi_card, b->rank_count);
    if (!failure) ofi_card_fill(p, memory, &own, &failure);
    if (failure) g_strlcpy(own.failure, failure->message, sizeof own.failure);
    const bool ok = bootstrap_allgather(b, &own, sizeof own, cards, failure ? NULL : error) && !failure &&
                    ofi_targets_fill(p, b, remote, cards, error);
    if (failure) g_propagate_error(error, failure);
    return ok;
}

/* --- closing --- */

/* Removes the entries of /dev/shm whose names begin with `begin`. */
static void ofi_names_remove(const char *begin)
{
    g_autoptr(GDir) folder = g_dir_open("/dev/shm", 0, NULL);
    const char *name;
    while (folder && (name = g_dir_read_name(folder)))
        if (g_str_has_prefix(name, begin)) shm_unlink(name);
}

void link_ofi_clean(const struct live_options *o)
{
    g_autofree char *names = ofi_family_names(o);
    if (o->family) ofi_names_remove(names);
}

void ofi_port_hide(struct ofi_port *p)
{
    if (p->names) ofi_names_remove(p->names);
    g_clear_pointer(&p->names, g_free);
}

static void ofi_close(struct fid *fid)
{
    if (fid) fi_close(fid);
}

void ofi_port_close(struct ofi_port *p)
{
    ofi_close(p->ep ? &p->ep->fid : NULL);
    ofi_close(p->memory_mr ? &p->memory_mr->fid : NULL);
    ofi_close(p->arena_mr ? &p->arena_mr->fid : NULL);
    ofi_close(p->cq ? &p->cq->fid : NULL);
    ofi_close(p->av ? &p->av->fid : NULL);
    ofi_close(p->domain ? &p->domain->fid : NULL);
    ofi_close(p->fabric ? &p->fabric->fid : NULL);
    if (p->info) p->library->freeinfo(p->info);
    ofi_port_hide(p);
    g_free(p->arena);
    g_free(p->target);
    g_free(p->provider);
}

#endif
