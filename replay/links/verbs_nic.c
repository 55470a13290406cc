/* verbs_nic.c - chooses and opens RDMA devices, their ports and GIDs, and registers memory.  If a machine does not
 * allow this, messages tell users what to do.
 *
 * This file knows no peers and no queue pairs. */
#ifdef HAVE_VERBS
#    include "replay/links/verbs.h"

#    include <errno.h>
#    include <fcntl.h>
#    include <stdio.h>
#    include <string.h>
#    include <sys/resource.h>

/* ---- choosing ------------------------------------------------------------------------------------------ */

static int verbs_names_compare(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Whether some port of the device can carry RC traffic now.  iWARP is left out, because it connects only by rdma_cm. */
static bool verbs_device_usable(struct ibv_device *device)
{
    if (device->transport_type != IBV_TRANSPORT_IB) return false;
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_device_attr attr;
    bool usable = false;
    if (context && ibv_query_device(context, &attr) == 0) {
        for (uint8_t port = 1; port <= attr.phys_port_cnt && !usable; port++) {
            struct ibv_port_attr port_attr;
            usable = ibv_query_port(context, port, &port_attr) == 0 && port_attr.state == IBV_PORT_ACTIVE;
        }
    }
    if (context) ibv_close_device(context);
    return usable;
}

/* Returns the names of all devices, or only of the usable ones, in the order of the numbers in their names. */
static GPtrArray *verbs_devices_list(bool usable_only, int *list_errno)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    errno = 0;
    struct ibv_device **list = ibv_get_device_list(NULL);
    *list_errno = list ? 0 : errno;
    for (uint32_t i = 0; list && list[i]; i++)
        if (!usable_only || verbs_device_usable(list[i]))
            g_ptr_array_add(names, g_strdup(ibv_get_device_name(list[i])));
    if (list) ibv_free_device_list(list);
    if (names->len) qsort(names->pdata, names->len, sizeof(void *), verbs_names_compare);
    return names;
}

static char *verbs_devices_text(void)
{
    int list_errno;
    g_autoptr(GPtrArray) names = verbs_devices_list(false, &list_errno);
    g_ptr_array_add(names, NULL);
    return names->pdata[0] ? g_strjoinv(" ", (char **)names->pdata) : g_strdup("none");
}

static char **verbs_names_automatic(uint32_t local_rank, GError **error)
{
    int list_errno;
    g_autoptr(GPtrArray) names = verbs_devices_list(true, &list_errno);
    char **chosen = NULL;
    if (names->len) {
        chosen = g_new0(char *, 2);
        chosen[0] = g_strdup(names->pdata[local_rank % names->len]);
    } else {
        g_autofree char *all = verbs_devices_text();
        error_run(error,
                  "verbs: expected an RDMA device with an active port, found: %s%s%s (see ibv_devinfo; without such "
                  "a device use --fabric ofi or shm)",
                  all, list_errno ? ", " : "", list_errno ? g_strerror(list_errno) : "");
    }
    return chosen;
}

char **verbs_nic_names(const struct live_options *o, uint32_t local_rank, GError **error)
{
    if (!o->device || !o->device[0]) return verbs_names_automatic(local_rank, error);
    g_auto(GStrv) dealt = g_strsplit(o->device, ",", -1);
    g_auto(GStrv) names = g_strsplit(dealt[local_rank % g_strv_length(dealt)], "+", -1);
    bool fine = g_strv_length(names) >= 1 && g_strv_length(names) <= VERBS_NICS_MAX;
    for (uint32_t i = 0; names[i]; i++) fine &= names[i][0] != '\0';
    if (fine) return g_steal_pointer(&names);
    return error_null(error,
                      "device: expected names as \"a,b\" (dealt out by local rank) or \"a+b\" (up to %d used by one "
                      "rank), found '%s'",
                      VERBS_NICS_MAX, o->device);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static struct ibv_context *verbs_context_open(const char *name, GError **error)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    bool found = false;
    for (uint32_t i = 0; list && list[i] && !found; i++) {
        found = strcmp(ibv_get_device_name(list[i]), name) == 0;
        if (!found) continue;
        context = ibv_open_device(list[i]);
        if (!context)
            error_run(error, "device %s: cannot be opened: %s (is /dev/infiniband/uverbs* writable?)", name,
                      g_strerror(errno));
    }
    if (list) ibv_free_device_list(list);
    if (!found) {
        g_autofree char *all = verbs_devices_text();
        error_run(error, "device: expected one of this machine's RDMA devices (%s), found '%s'", all, name);
    }
    return context;
}

static const char *verbs_port_state_name(enum ibv_port_state state)
{
    return state == IBV_PORT_NOP ? "unknown" : ibv_port_state_str(state);
}

static bool verbs_port_choose(struct verbs_nic *nic, const struct live_options *o, GError **error)
{
    const uint32_t port_count = nic->device_attr.phys_port_cnt;
    if (o->port > port_count)
        return error_input(error, "device %s: expected port 1 to %u, found --port %u", nic->name, port_count, o->port);
    const uint32_t first = o->port ? o->port : 1, last = o->port ? o->port : port_count;
    for (uint32_t port = first; port <= last; port++) {
        const int rc = ibv_query_port(nic->context, (uint8_t)port, &nic->port_attr);
        if (rc) return error_run(error, "device %s port %u: %s", nic->name, port, g_strerror(rc));
        nic->port = (uint8_t)port;
        if (nic->port_attr.state == IBV_PORT_ACTIVE) return true;
    }
    return error_run(error, "device %s port %u: expected an active port, found state %s (see ibv_devinfo)", nic->name,
                     nic->port, verbs_port_state_name(nic->port_attr.state));
}

/* Returns a number that is higher for a better GID.  RoCE v2 is better than v1, because only v2 is routed.  IPv4 is
 * better than IPv6, and IPv6 is better than link-local, which crosses no router. */
static int verbs_gid_worth(const struct ibv_gid_entry *entry)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    int worth = entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? 1 : 10;
    if (memcmp(entry->gid.raw, mapped, sizeof mapped) == 0) worth += 3;
    else if (!(entry->gid.raw[0] == 0xfe && (entry->gid.raw[1] & 0xc0) == 0x80)) worth += 2;
    return worth;
}

static bool verbs_gid_choose(struct verbs_nic *nic, const struct live_options *o, GError **error)
{
    const bool ethernet = nic->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    nic->global = ethernet || o->gid_index >= 0;
    if (!nic->global) return true;
    int best = 0;
    for (int index = 0; index < nic->port_attr.gid_tbl_len; index++) {
        struct ibv_gid_entry entry;
        if (o->gid_index >= 0 && index != o->gid_index) continue;
        if (ibv_query_gid_ex(nic->context, nic->port, (uint32_t)index, &entry, 0) != 0) continue;
        const int worth = verbs_gid_worth(&entry);
        if (worth <= best || index > UINT8_MAX) continue;
        best = worth;
        nic->gid = entry.gid;
        nic->gid_index = (uint8_t)index;
    }
    if (best) return true;
    if (o->gid_index < 0)
        return error_run(error, "device %s port %u: no GID: its network interface has no address", nic->name,
                         nic->port);
    return error_input(error,
                       "device %s port %u: expected the index of a GID (see ibv_devinfo -v), found --gid-index %d",
                       nic->name, nic->port, o->gid_index);
}

bool verbs_nic_open(struct verbs_nic *nic, const char *name, const struct live_options *o, GError **error)
{
    *nic = (struct verbs_nic){ 0 };
    g_strlcpy(nic->name, name, sizeof nic->name);
    nic->context = verbs_context_open(name, error);
    if (!nic->context) return false;
    if (nic->context->device->transport_type != IBV_TRANSPORT_IB)
        return error_run(
            error,
            "device %s: expected InfiniBand or RoCE, found another transport (try --fabric ofi --provider verbs)",
            name);
    int rc = ibv_query_device(nic->context, &nic->device_attr);
    if (rc) return error_run(error, "device %s: cannot be queried: %s", name, g_strerror(rc));
    if (!verbs_port_choose(nic, o, error) || !verbs_gid_choose(nic, o, error)) return false;
    if (o->signalling == LIVE_SIGNAL_ATOMIC && !verbs_nic_atomics(nic))
        return error_run(error, "device %s has no atomics: expected --signalling write or imm", name);
    const int flags = fcntl(nic->context->async_fd, F_GETFL);
    if (flags < 0 || fcntl(nic->context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return error_run(error, "device %s: events: %s", name, g_strerror(errno));
    nic->pd = ibv_alloc_pd(nic->context);
    if (!nic->pd) error_run(error, "device %s: no protection domain: %s", name, g_strerror(errno));
    return nic->pd != NULL;
}

void verbs_nic_close(struct verbs_nic *nic)
{
    if (nic->scratch_mr) ibv_dereg_mr(nic->scratch_mr);
    if (nic->mr) ibv_dereg_mr(nic->mr);
    if (nic->receive_cq) ibv_destroy_cq(nic->receive_cq);
    if (nic->send_cq) ibv_destroy_cq(nic->send_cq);
    if (nic->pd) ibv_dealloc_pd(nic->pd);
    if (nic->context) ibv_close_device(nic->context);
    *nic = (struct verbs_nic){ 0 };
}

/* ---- memory and completion queues ---------------------------------------------------------------------- */

static void verbs_register_refuse(const struct verbs_nic *nic, uint64_t size_bytes, const char *what, int code,
                                  GError **error)
{
    struct rlimit limit = { 0 };
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const double mib = 1.0 / (1 << 20);
    if ((code == ENOMEM || code == EAGAIN) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 2 * size_bytes)
        error_run(error,
                  "device %s: cannot register %.1f MiB of %s: the limit of locked memory is %.2f MiB; raise it "
                  "(ulimit -l unlimited, or memlock in limits.conf)",
                  nic->name, (double)size_bytes * mib, what, (double)limit.rlim_cur * mib);
    else
        error_run(error, "device %s: cannot register %.1f MiB of %s: %s", nic->name, (double)size_bytes * mib, what,
                  g_strerror(code));
}

struct ibv_mr *verbs_memory_register(const struct verbs_nic *nic, void *base, uint64_t size_bytes, int access,
                                     const char *what, GError **error)
{
    struct ibv_mr *mr = ibv_reg_mr(nic->pd, base, size_bytes, (unsigned)access);
    if (!mr) verbs_register_refuse(nic, size_bytes, what, errno, error);
    return mr;
}

/* Checks whether the driver supports dma-buf.  If it does, its answer to an invalid descriptor is EBADF. */
static bool verbs_dmabuf_probe(const struct verbs_nic *nic, GError **error)
{
    errno = 0;
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(nic->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    const int code = mr ? 0 : errno;
    if (mr) ibv_dereg_mr(mr);
    if (code == 0 || code == EBADF) return true;
    return error_run(error,
                     "device %s: GPU memory: its driver registers no dma-bufs (%s); expected one that does (mlx5 "
                     "with Linux 5.12 or newer), or a run without GPU memory",
                     nic->name, g_strerror(code));
}

static bool verbs_dmabuf_register(struct verbs_nic *nic, const struct live_memory *memory, int access, GError **error)
{
    if (!verbs_dmabuf_probe(nic, error)) return false;
    if (!memory->dmabuf)
        return error_run(error,
                         "GPU memory: the heap of this build lies in host memory, nothing exports it as a dma-buf");
    nic->mr = ibv_reg_dmabuf_mr(nic->pd, memory->dmabuf->offset, memory->size_bytes, (uint64_t)(uintptr_t)memory->base,
                                memory->dmabuf->fd, access);
    if (!nic->mr) verbs_register_refuse(nic, memory->size_bytes, "GPU memory (dma-buf)", errno, error);
    return nic->mr != NULL;
}

bool verbs_nic_register(struct verbs_nic *nic, const struct live_options *o, const struct live_memory *memory,
                        GError **error)
{
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (verbs_nic_atomics(nic)) access |= IBV_ACCESS_REMOTE_ATOMIC;
    if (o->gpu_memory) return verbs_dmabuf_register(nic, memory, access, error);
    nic->mr = verbs_memory_register(nic, memory->base, memory->size_bytes, access, "the rank's memory", error);
    return nic->mr != NULL;
}

static struct ibv_cq *verbs_cq_make(const struct verbs_nic *nic, uint32_t entries, GError **error)
{
    errno = 0;
    struct ibv_cq *cq = ibv_create_cq(nic->context, (int)entries, NULL, NULL, 0);
    if (!cq)
        error_run(error,
                  "device %s: no completion queue of %u entries (at most %d): %s (a limit of the device, or rdma.max "
                  "of the cgroup)",
                  nic->name, entries, nic->device_attr.max_cqe, g_strerror(errno));
    return cq;
}

bool verbs_nic_queues_make(struct verbs_nic *nic, uint32_t send_entries, uint32_t receive_entries, GError **error)
{
    nic->completions_free = MAX(MIN(send_entries, (uint32_t)nic->device_attr.max_cqe), 1);
    nic->send_cq = verbs_cq_make(nic, nic->completions_free, error);
    if (nic->send_cq && receive_entries) nic->receive_cq = verbs_cq_make(nic, receive_entries, error);
    return nic->send_cq && (!receive_entries || nic->receive_cq);
}

struct verbs_address verbs_nic_address(const struct verbs_nic *nic)
{
    struct verbs_address address = {
        .memory_key = nic->mr->rkey,
        .scratch_key = nic->scratch_mr->rkey,
        .lid = nic->port_attr.lid,
        .mtu = (uint8_t)nic->port_attr.active_mtu,
        .ethernet = nic->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET,
    };
    memcpy(address.gid, nic->gid.raw, sizeof address.gid);
    return address;
}

/* ---- events -------------------------------------------------------------------------------------------- */

bool verbs_nic_port_active(const struct verbs_nic *nic)
{
    struct ibv_port_attr attr;
    return ibv_query_port(nic->context, nic->port, &attr) == 0 && attr.state == IBV_PORT_ACTIVE;
}

static bool verbs_event_ends(const struct verbs_nic *nic, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR: return event->element.port_num == nic->port;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL: return true;
    default:
        /* Other events, such as QP_REQ_ERR and QP_ACCESS_ERR, are not reported.  The work completion that follows
         * says more. */
        return false;
    }
}

bool verbs_nic_events_check(struct verbs_nic *nic, char *text, size_t text_size)
{
    struct ibv_async_event event;
    bool fine = true;
    while (fine && ibv_get_async_event(nic->context, &event) == 0) {
        fine = !verbs_event_ends(nic, &event);
        if (!fine && event.event_type == IBV_EVENT_PORT_ERR)
            g_snprintf(text, (gulong)text_size, "device %s port %u went down", nic->name, nic->port);
        else if (!fine)
            g_snprintf(text, (gulong)text_size, "device %s: %s", nic->name, ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
    }
    return fine;
}

#endif
