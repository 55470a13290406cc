/* cluster.c - reads cluster files.  cluster_keys.c lists the sections and keys, cluster_values.c reads values. */
#include "models/cluster.h"
#include <assert.h>
#include <string.h>
#include "models/cluster_keys.h"
#include "models/cluster_values.h"
#include "models/key_file.h"
#include "sim/error.h"
#include "sim/memory.h"
#include "sim/nearest.h"
#include "sim/share.h"

static bool parse_value(const struct cluster_key *k, const struct key_file *file, const char *text, struct cluster *c,
                        GError **error)
{
    assert(k->offset < sizeof *c && !k->choices == (k->kind != KIND_CHOICE));
    if (cluster_value_parse(k->kind, k->choices, text, (char *)c + k->offset)) return true;
    g_auto(GStrv) choices = g_strsplit(k->choices ? k->choices : "", "|", 0);
    g_autofree char *list = g_strjoinv(", ", choices), *one_of = g_strconcat("one of ", list, NULL);
    g_autofree char *place = key_file_place(file, k->section, k->name);
    return error_input(error, "%s: [%s] %s: expected %s, found \"%s\"", place, k->section, k->name,
                       k->choices ? one_of : cluster_value_expected(k->kind), text);
}

/* Refuses a section that lacks keys.  The error lists all of the missing keys.  If only included files have the
 * section, the error names the file that includes them. */
static bool refuse_lack(const struct key_file *file, const char *section, GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);
    uint32_t count = 0;
    const struct cluster_key *k;
    for (size_t i = 0; (k = cluster_key_at(i)); i++) {
        if (strcmp(k->section, section) != 0 || k->optional || key_file_line(file, section, k->name)) continue;
        g_string_append_printf(names, "%s%s", count++ ? ", " : "", k->name);
    }
    g_autofree char *place = key_file_place(file, section, NULL), *own = g_strconcat(file->path, ":", NULL);
    const bool included = !g_str_has_prefix(place, own);
    return error_input(error, "%s: [%s] lacks the key%s %s%s", included ? file->path : place, section,
                       count > 1 ? "s" : "", names->str, included ? ", and so do the files that it includes" : "");
}

static bool read_keys(const struct key_file *file, struct cluster *c, GError **error)
{
    const struct cluster_key *k;
    for (size_t i = 0; (k = cluster_key_at(i)); i++) {
        const uint32_t section_line = key_file_line(file, k->section, NULL);
        g_autofree char *text = key_file_text(file, k->section, k->name);
        if (!section_line || (!text && k->optional)) continue;
        if (!text) return refuse_lack(file, k->section, error);
        if (!parse_value(k, file, text, c, error)) return false;
    }
    return true;
}

/* Refuses a section, or a name in a section, that no cluster file may have.  Suggests `nearest`. */
static bool refuse_name(const struct key_file *file, const char *section, const char *name, const char *nearest,
                        GError **error)
{
    g_autofree char *place = key_file_place(file, section, name);
    return error_input(error, "%s: [%s]%s%s: unknown %s%s%s%s", place, section, name ? " " : "", name ? name : "",
                       name ? "key" : "section", nearest ? "; did you mean " : "", nearest ? nearest : "",
                       nearest ? "?" : "");
}

/* The names of a section's keys.  The caller frees the array with g_free(), and not the names. */
static const char **key_names(const char *section)
{
    GPtrArray *names = g_ptr_array_new();
    if (!strcmp(section, "cluster")) {
        g_ptr_array_add(names, (gpointer) "name");
        g_ptr_array_add(names, (gpointer) "include");
        g_ptr_array_add(names, (gpointer) "assume");
    }
    const struct cluster_key *k;
    for (size_t i = 0; (k = cluster_key_at(i)); i++)
        if (!strcmp(section, k->section)) g_ptr_array_add(names, (gpointer)k->name);
    g_ptr_array_add(names, NULL);
    return (const char **)g_ptr_array_free(names, FALSE);
}

/* The section that has a key of that name; NULL if none has. */
static const char *section_of_key(const char *name)
{
    const struct cluster_key *k;
    for (size_t i = 0; (k = cluster_key_at(i)); i++)
        if (!strcmp(name, k->name)) return k->section;
    return NULL;
}

static bool refuse_section(const struct key_file *file, const char *section, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    g_ptr_array_add(names, (gpointer) "cluster");
    g_ptr_array_add(names, (gpointer) "links");
    const struct cluster_key *k;
    for (size_t i = 0; (k = cluster_key_at(i)); i++) g_ptr_array_add(names, (gpointer)k->section);
    g_ptr_array_add(names, NULL);
    const char *nearest = nearest_find(section, (const char *const *)names->pdata);
    g_autofree char *bracketed = nearest ? g_strconcat("[", nearest, "]", NULL) : NULL;
    return refuse_name(file, section, NULL, bracketed, error);
}

/* Names that users may expect in [gpu] but that are no keys, and where their values come from. */
static const struct {
    const char *where, *names;
} elsewhere[] = {
    { "the sheets of kernels say it",
      "add-rate reduce-load-rate reduce-look reduce-row reduce-warp-rate scan-rate store-warp-rate "
      "stretch-row" },
    { "it follows from load, access", "scan-row" },
};

static bool refuse_key(const struct key_file *file, const char *section, const char *name, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(elsewhere); i++) {
        g_auto(GStrv) names = g_strsplit(elsewhere[i].names, " ", -1);
        if (strcmp(section, "gpu") != 0 || !g_strv_contains((const char *const *)names, name)) continue;
        g_autofree char *place = key_file_place(file, section, name);
        return error_input(error, "%s: [gpu] %s: unknown key; %s", place, name, elsewhere[i].where);
    }
    g_autofree const char **names = key_names(section);
    const char *nearest = nearest_find(name, names), *other = section_of_key(name);
    g_autofree char *there = other ? g_strdup_printf("[%s] %s", other, name) : NULL;
    return refuse_name(file, section, name, there ? there : nearest, error);
}

static bool section_known(const char *section)
{
    bool known = !strcmp(section, "cluster") || !strcmp(section, "links");
    const struct cluster_key *k;
    for (size_t i = 0; (k = cluster_key_at(i)); i++) known |= !strcmp(section, k->section);
    return known;
}

static bool key_known(const char *section, const char *name)
{
    if (!strcmp(section, "links")) return true;
    g_autofree const char **names = key_names(section);
    return g_strv_contains(names, name);
}

static bool refuse_unknown(const struct key_file *file, GError **error)
{
    g_auto(GStrv) sections = g_key_file_get_groups(file->keys, NULL);
    for (char **s = sections; *s; s++) {
        if (!section_known(*s)) return refuse_section(file, *s, error);
        g_auto(GStrv) names = g_key_file_get_keys(file->keys, *s, NULL, NULL);
        for (char **n = names; n && *n; n++)
            if (!key_known(*s, *n)) return refuse_key(file, *s, *n, error);
    }
    return true;
}

static void links_free(struct cluster *c)
{
    for (uint32_t i = 0; i < c->link_count; i++) FREE_ALL(c->link[i].from, c->link[i].to, c->link[i].place);
    g_clear_pointer(&c->link, g_free);
    c->link_count = 0;
}

static bool check_dcqcn(const struct key_file *file, const struct cluster *c, GError **error)
{
    if (!c->dcqcn.cnp_ps) return true;
    g_autofree char *place = key_file_place(file, "dcqcn", "mark-all");
    if (!key_file_line(file, "network", NULL))
        return error_input(error, "%s: [dcqcn]: needs a [network], whose switches mark", place);
    if (c->dcqcn.mark_all_bytes > c->dcqcn.mark_from_bytes) return true;
    return error_input(error, "%s: [dcqcn] mark-all: expected more than mark-from, found less", place);
}

enum { PCIE_PEERS_MAX = 64 };

static bool check_peers(const struct key_file *file, const struct cluster *c, GError **error)
{
    if (c->nvlink.over != CLUSTER_PEERS_BY_PCIE || MAX(c->nvlink.gpus, c->node.gpus) <= PCIE_PEERS_MAX) return true;
    g_autofree char *place = key_file_place(file, "nvlink", "over");
    return error_input(error, "%s: [nvlink] over: expected at most %d GPUs of a node for pcie, found %u", place,
                       PCIE_PEERS_MAX, MAX(c->nvlink.gpus, c->node.gpus));
}

static bool check_cross_rail(const struct key_file *file, const struct cluster *c, GError **error)
{
    const struct cluster_network *n = &c->network;
    const bool rails = n->topology == CLUSTER_RAIL || n->topology == CLUSTER_LINKS;
    if (n->cross_rail == CLUSTER_CROSS_BY_SPINE ||
        (rails && c->nvlink.gpus > 1 && c->nvlink.over != CLUSTER_PEERS_BY_PCIE))
        return true;
    g_autofree char *place = key_file_place(file, "network", "cross-rail");
    return error_input(
        error,
        "%s: [network] cross-rail: expected nvlink with topology = rail or links and GPUs joined by NVLink, found %s",
        place, rails ? "no NVLink" : "other leaves");
}

/* Refuses keys of a network in a cluster without NICs, because nothing would use them. */
static bool check_no_nics(const struct key_file *file, const struct cluster *c, GError **error)
{
    static const char *const sections[] = { "network", "links", "dcqcn" };
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) {
        if (!key_file_line(file, sections[i], NULL) || (!strcmp(sections[i], "links") && cluster_node_written(c)))
            continue;
        g_autofree char *place = key_file_place(file, sections[i], NULL);
        return error_input(error, "%s: [%s]: needs a [nic], whose ports it connects", place, sections[i]);
    }
    return true;
}

/* Refuses a node whose PCIe is given both by links and by keys of this file, because only one of the two can count.
 * Links replace keys of included files. */
static bool check_node_written(const struct key_file *file, const struct cluster *c, GError **error)
{
    static const char *const keys[] = { "sockets",      "pcie-switches", "pcie-rate",      "root-rate",
                                        "root-latency", "socket-rate",   "socket-latency", "staging" };
    g_autofree char *own = g_strconcat(file->path, ":", NULL);
    for (size_t i = 0; cluster_node_written(c) && i < G_N_ELEMENTS(keys); i++) {
        g_autofree char *place = key_file_place(file, "node", keys[i]);
        const uint32_t line = key_file_line(file, "node", keys[i]);
        if (!line || (line != KEY_FILE_SETTING && !g_str_has_prefix(place, own))) continue;
        return error_input(error, "%s: [node] %s: expected no such key where [links] describe a node's PCIe", place,
                           keys[i]);
    }
    return true;
}

/* "nics = 0" removes the NICs of an included file. */
static void nics_take_away(struct cluster *c)
{
    if (c->node.nics != CLUSTER_NO_NICS) return;
    links_free(c);
    c->node.nics = 0;
    c->nic = (struct cluster_nic){ 0 };
    c->network = (struct cluster_network){ 0 };
    c->dcqcn = (struct cluster_dcqcn){ 0 };
}

/* Refuses a read time that is longer than the fetch time, of which it is a part. */
static bool check_fetch(const struct key_file *file, const struct cluster *c, GError **error)
{
    if (c->nic.read_ps <= c->nic.fetch_ps) return true;
    g_autofree char *place = key_file_place(file, "nic", "read");
    return error_input(error, "%s: [nic] read: expected at most fetch, of which it is a part, %.6g ns, found %.6g ns",
                       place, (double)c->nic.fetch_ps / 1e3, (double)c->nic.read_ps / 1e3);
}

/* Refuses parts that do not fit together, and fills in what they leave open.  A cluster has the sections [gpu] and
 * [nvlink], or the section [host].  If it has [gpu] and [nic], it has [network], too. */
static bool check_parts(const struct key_file *file, struct cluster *c, GError **error)
{
    const uint32_t gpu = key_file_line(file, "gpu", NULL), host = key_file_line(file, "host", NULL);
    const char *missing = NULL;
    if (gpu && host)
        return error_input(error, "%s:%u: has both [gpu] and [host]: ranks run on one of them", c->path,
                           MAX(gpu, host));
    if (!gpu && !host) missing = "[gpu] or [host]";
    else if (gpu && !key_file_line(file, "nvlink", NULL)) missing = "[nvlink]";
    else if (gpu && key_file_line(file, "nic", NULL) && !key_file_line(file, "network", NULL)) missing = "[network]";
    if (missing) return error_input(error, "%s: lacks the section %s", c->path, missing);
    if (gpu && !key_file_line(file, "nic", NULL) && !check_no_nics(file, c, error)) return false;
    if (!check_node_written(file, c, error)) return false;
    if (!check_dcqcn(file, c, error) || !check_cross_rail(file, c, error) || !check_peers(file, c, error)) return false;
    if (!check_fetch(file, c, error)) return false;
    nics_take_away(c);
    if (2u * c->gpu.cpcs.kind[0].pairs != c->gpu.sms) c->gpu.cpcs = (struct cluster_dies){ 0 }; /* of another product */
    if (!c->nic.gpus_per_nic) c->nic.gpus_per_nic = 1;
    if (!c->nic.mtu_bytes) c->nic.mtu_bytes = 4096;
    if (!c->nic.proxy_threads) c->nic.proxy_threads = 1;
    if (!c->nic.ports) c->nic.ports = 1;
    c->name = key_file_text(file, "cluster", "name");
    if (!c->name) c->name = g_path_get_basename(c->path);
    return true;
}

/* Returns words such as "did you mean h100-cx6 or h100-cx7", with the shipped names that begin with word or, if none
 * does, the most similar name.  Returns "" if none is similar. */
static char *names_meant(const char *word, char **names)
{
    g_autoptr(GPtrArray) meant = g_ptr_array_new();
    for (char **n = names; *n && *word; n++)
        if (!g_ascii_strncasecmp(*n, word, strlen(word))) g_ptr_array_add(meant, *n);
    const char *nearest = nearest_find(word, (const char *const *)names);
    if (!meant->len && nearest) g_ptr_array_add(meant, (gpointer)nearest);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < meant->len; i++)
        g_string_append_printf(text, "%s%s",
                               !i                   ? "did you mean "
                               : i + 1 < meant->len ? ", "
                                                    : " or ",
                               (char *)meant->pdata[i]);
    return g_string_free(text, FALSE);
}

/* Returns a path with a '/' as it is.  Otherwise returns the path of the file here, or of the shipped file of that
 * name.  If there is neither, returns NULL and sets *error, which lists the searched folders and the shipped names. */
static char *find_file(const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_EXISTS) || strchr(path, '/')) return g_strdup(path);
    char *shipped = share_find(SHARE_CLUSTERS, path);
    if (shipped) return shipped;
    g_auto(GStrv) folders = share_folders(SHARE_CLUSTERS), names = share_names(SHARE_CLUSTERS);
    g_autofree char *places = g_strjoinv(", ", folders), *known = g_strjoinv(", ", names);
    g_autofree char *meant = names_meant(path, names);
    return error_null(error, "%s: %s%sexpected a cluster file%s%s, found none of that name here or in %s", path, meant,
                      *meant ? "? " : "", *known ? " or one of " : "", known, places);
}

const char *cluster_provider_text(uint32_t provider)
{
    static const char *const text[] = { "unknown",         "NVIDIA's ConnectX", "AWS's EFA",
                                        "HPE's Slingshot", "Broadcom's Thor",   "AMD's Pollara" };
    assert(provider < G_N_ELEMENTS(text));
    return text[provider];
}

const char *cluster_inside_kind(const char *name)
{
    static const char *const kinds[] = { "g", "nic", "pcie", "root" };
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        const size_t length = strlen(kinds[i]);
        if (strncmp(name, kinds[i], length) != 0 || !name[length]) continue;
        if (!name[length + strspn(name + length, "0123456789")]) return kinds[i];
    }
    return NULL;
}

bool cluster_node_written(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->link_count; i++)
        if (c->link[i].inside) return true;
    return false;
}

/* Reads a line of [links] such as "n1.nic0 - leaf3 = 400 Gbit/s, 300 ns".  The link goes in both directions. */
static bool read_link(const struct key_file *file, struct cluster *c, const char *name, GError **error)
{
    g_autofree char *text = key_file_text(file, "links", name), *place = key_file_place(file, "links", name);
    g_auto(GStrv) end = g_strsplit(name, " - ", 2), value = g_strsplit(text, ",", 2);
    struct cluster_link link = { .place = place };
    const bool ends = end[0] && end[1] && *g_strstrip(end[0]) && *g_strstrip(end[1]);
    if (!ends || !value[0] || !cluster_value_parse(KIND_RATE, NULL, g_strstrip(value[0]), &link.rate_bps) ||
        (value[1] && !cluster_value_parse(KIND_TIME, NULL, g_strstrip(value[1]), &link.latency_ps)))
        return error_input(error,
                           "%s: [links]: expected \"PART - PART = RATE\" or \"... = RATE, TIME\", found \"%s = %s\"",
                           place, name, text);
    if (!cluster_inside_kind(end[0]) != !cluster_inside_kind(end[1]))
        return error_input(
            error,
            "%s: [links]: expected two parts of a node (g0, nic0, pcie0, root0), or two of the network, found \"%s\"",
            place, name);
    assert(link.rate_bps > 0);
    link.from = g_strdup(end[0]);
    link.to = g_strdup(end[1]);
    link.inside = cluster_inside_kind(end[0]);
    link.place = g_steal_pointer(&place);
    c->link = g_renew(struct cluster_link, c->link, c->link_count + 1);
    c->link[c->link_count++] = link;
    return true;
}

static bool read_links(const struct key_file *file, struct cluster *c, GError **error)
{
    g_auto(GStrv) names = g_key_file_get_keys(file->keys, "links", NULL, NULL);
    for (char **n = names; n && *n; n++)
        if (!read_link(file, c, *n, error)) return false;
    return true;
}

enum { INCLUDES_DEEP = 8 };

/* The path of a shipped part such as "parts/hopper.ini"; NULL if there is none. */
static char *part_path(const char *name)
{
    g_auto(GStrv) folders = share_folders(SHARE_CLUSTERS);
    if (!g_str_has_prefix(name, "parts/")) return NULL;
    for (char **f = folders; *f; f++) {
        char *path = g_build_filename(*f, name, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_REGULAR)) return path;
        g_free(path);
    }
    return NULL;
}

/* Returns the path of an included file.  Names are relative to the folder of the including file.  If that folder lacks
 * the file, a shipped file or part of this name is included. */
static char *include_path(const char *folder, const char *name)
{
    if (g_path_is_absolute(name)) return g_strdup(name);
    char *beside = g_build_filename(folder, name, NULL);
    if (g_file_test(beside, G_FILE_TEST_EXISTS)) return beside;
    char *shipped = share_find(SHARE_CLUSTERS, name);
    if (!shipped) shipped = part_path(name);
    if (!shipped) return beside;
    g_free(beside);
    return shipped;
}

/* A file whose values are assumed.  place is the line that names the file: "FILE:LINE: [cluster] assume". */
struct assumed_file {
    char *path, *place;
    uint32_t depth;
};

static void assumed_file_free(struct assumed_file *f) { FREE_ALL(f->path, f->place, f); }

static bool files_named(struct key_file *file, const struct key_file *from, uint32_t depth, const char *key,
                        GQueue *assumed, GError **error);

/* Adds the keys that the file at path has and `file` lacks, and then those of the files that it includes.  Appends
 * the files whose values it assumes to `assumed`, unread. */
static bool include_file(struct key_file *file, const char *path, const char *place, uint32_t depth, GQueue *assumed,
                         GError **error)
{
    g_autoptr(key_file) part = key_file_load(path, error);
    if (!part) {
        g_prefix_error(error, "%s: ", place);
        return false;
    }
    key_file_complete(file, part, "cluster");
    return files_named(file, part, depth + 1, "include", assumed, error) &&
           files_named(file, part, depth + 1, "assume", assumed, error);
}

/* Reads the files that a key of `from` names.  The key is "include" or "assume". */
static bool files_named(struct key_file *file, const struct key_file *from, uint32_t depth, const char *key,
                        GQueue *assumed, GError **error)
{
    assert(depth <= INCLUDES_DEEP);
    g_autofree char *text = key_file_text(from, "cluster", key);
    g_autofree char *folder = g_path_get_dirname(from->path);
    g_auto(GStrv) names = g_strsplit(text ? text : "", "|", 0);
    for (char **n = names; *n; n++) {
        g_autofree char *line = key_file_place(from, "cluster", key);
        g_autofree char *place = g_strdup_printf("%s: [cluster] %s", line, key);
        const char *name = g_strstrip(*n);
        if (!*name || depth == INCLUDES_DEEP)
            return error_input(error, "%s: expected files of at most %d levels, found \"%s\"", place, INCLUDES_DEEP,
                               text);
        g_autofree char *path = include_path(folder, name);
        if (!strcmp(key, "assume")) {
            struct assumed_file *f = g_new(struct assumed_file, 1);
            *f = (struct assumed_file){ g_steal_pointer(&path), g_steal_pointer(&place), depth };
            g_queue_push_tail(assumed, f);
        } else if (!include_file(file, path, place, depth, assumed, error)) return false;
    }
    return true;
}

/* Returns the keys that no file read so far has given. */
static GPtrArray *keys_lacking(const struct key_file *file)
{
    GPtrArray *lacking = g_ptr_array_new();
    const struct cluster_key *k;
    for (size_t i = 0; (k = cluster_key_at(i)); i++)
        if (!key_file_line(file, k->section, k->name)) g_ptr_array_add(lacking, (gpointer)k);
    return lacking;
}

/* Reads all files that a file names: first those that it includes, then those that it assumes.  *lacking gets the keys
 * that neither the file nor an included file gives. */
static bool files_read(struct key_file *file, GPtrArray **lacking, GError **error)
{
    GQueue assumed = G_QUEUE_INIT;
    bool good =
        files_named(file, file, 0, "include", &assumed, error) && files_named(file, file, 0, "assume", &assumed, error);
    *lacking = keys_lacking(file);
    struct assumed_file *f;
    while (good && (f = g_queue_pop_head(&assumed))) {
        good = include_file(file, f->path, f->place, f->depth, &assumed, error);
        assumed_file_free(f);
    }
    g_queue_clear_full(&assumed, (GDestroyNotify)assumed_file_free);
    return good;
}

/* Notes which keys have values that are assumed. */
static void assumed_note(struct cluster *c, const struct key_file *file, const GPtrArray *lacking)
{
    c->assumed = g_new0(struct cluster_assumed, lacking->len);
    for (guint i = 0; i < lacking->len; i++) {
        const struct cluster_key *k = g_ptr_array_index(lacking, i);
        const uint32_t line = key_file_line(file, k->section, k->name);
        if (!line || line == KEY_FILE_SETTING || (k->kind == KIND_CPCS && !c->gpu.cpcs.kind[0].pairs)) continue;
        g_autofree char *place = key_file_place(file, k->section, k->name);
        *strrchr(place, ':') = '\0';
        c->assumed[c->assumed_count++] = (struct cluster_assumed){ k->section, k->name, g_path_get_basename(place) };
    }
}

/* Fills in what follows from other keys.  load_ps is a wait for five accesses (copy_5).  In a scan, each load takes its
 * address from the previous load, so it waits for one access.  A scan's load therefore takes four accesses less. */
static void gpu_derive(struct cluster_gpu *gpu)
{
    enum { FURTHER = 4 };
    gpu->scan_row_ps = gpu->load_ps > FURTHER * gpu->access_ps ? gpu->load_ps - FURTHER * gpu->access_ps : 0;
}

static bool settings_put(struct key_file *file, const char *const *settings, GError **error)
{
    for (; settings && *settings; settings++) {
        const char *equals = strchr(*settings, '=');
        const char *dot = equals ? g_strrstr_len(*settings, equals - *settings, ".") : NULL;
        if (!dot || dot == *settings || dot + 1 == equals || !equals[1])
            return error_input(error, "expected section.key=value, as in nic.rate=50GB/s, found '%s'", *settings);
        g_autofree char *section = g_strndup(*settings, (gsize)(dot - *settings));
        g_autofree char *key = g_strndup(dot + 1, (gsize)(equals - dot - 1));
        g_autofree char *place = g_strconcat("--set ", *settings, NULL);
        key_file_set(file, section, key, equals + 1, place);
    }
    return true;
}

static struct cluster *cluster_read(struct key_file *file, const char *const *settings, GError **error)
{
    g_autoptr(GPtrArray) lacking = NULL;
    if (!file || !files_read(file, &lacking, error) || !settings_put(file, settings, error)) return NULL;
    struct cluster *c = g_new0(struct cluster, 1);
    c->path = g_strdup(file->path);
    c->settings = g_strdupv((char **)settings);
    c->digest = key_file_digest(file, "cluster", "links");
    if (refuse_unknown(file, error) && read_keys(file, c, error) && read_links(file, c, error) &&
        check_parts(file, c, error)) {
        gpu_derive(&c->gpu);
        assumed_note(c, file, lacking);
        return c;
    }
    cluster_free(c);
    return NULL;
}

struct cluster *cluster_load_set(const char *path, const char *const *settings, GError **error)
{
    assert(path && (!error || !*error));
    g_autofree char *found = find_file(path, error);
    g_autoptr(key_file) file = found ? key_file_load(found, error) : NULL;
    return cluster_read(file, settings, error);
}

struct cluster *cluster_load(const char *path, GError **error) { return cluster_load_set(path, NULL, error); }

struct cluster *cluster_parse(const char *path, const char *text, GError **error)
{
    g_autoptr(key_file) file = key_file_parse(path, text, strlen(text), error);
    return cluster_read(file, NULL, error);
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster) return;
    links_free(cluster);
    for (uint32_t i = 0; i < cluster->assumed_count; i++) g_free(cluster->assumed[i].file);
    FREE_ALL(cluster->assumed, cluster->name, cluster->path);
    g_strfreev(cluster->settings);
    g_free(cluster->digest);
    g_free(cluster);
}
