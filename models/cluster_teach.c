/* cluster_teach.c - the keys of cluster files in words; see cluster_command.h. */
#include "models/cluster_command.h"

#include <string.h>

#include "models/cluster_keys.h"
#include "sim/error.h"
#include "sim/text.h"

enum { COLUMNS = 100, INDENT = 6 };

static const char form[] =
    "A cluster file has a section for each part of a machine.  '#' begins a comment, which names the source of the "
    "number before it.  Times end in ps, ns, us or ms; rates in KB/s, MB/s, GB/s, TB/s, Mbit/s, Gbit/s or Tbit/s; "
    "sizes in B, KB, KiB, MB, MiB or GB.  Keys in (parentheses) are optional.  `eptwin cluster check FILE` checks a "
    "file, and `eptwin cluster show FILE` draws it.";

static const struct {
    const char *section, *about;
} sections[] = {
    { "cluster", "The file itself.  name: name of the machine in results.  include: files, separated by |, that supply "
                 "missing keys; a bare name is a file that ships with eptwin, parts/NAME a part.  assume: likewise "
                 "files of other hardware, for values that nobody has measured on this machine; results say so." },
    { "gpu", "One GPU: its SMs, the work of their warps, its memory." },
    { "contention", "How concurrent kernels slow each other through a GPU's memory (--compute, step).  Without this "
                    "section they do not." },
    { "nvlink", "The links among the GPUs of a node or of a larger domain." },
    { "calls", "The time that the host takes to drive a GPU (--issue, --api)." },
    { "nic", "One NIC, and who posts requests to it.  Needed between nodes." },
    { "node", "The parts of a node and the PCIe between them." },
    { "network", "The switches between NICs.  Required with [nic]." },
    { "dcqcn", "Congestion control of RoCE.  Include parts/dcqcn-nvidia.ini or parts/dcqcn-sigcomm15.ini." },
    { "links", "Links that keys cannot describe, one per line, for both directions: \"n0.nic0 - leaf0 = 50 GB/s, 450 "
               "ns\" in the network, \"g0 - pcie0 = 57 GB/s\" in every node." },
    { "host", "Instead of [gpu]: a machine without GPUs, whose ranks are processes.  `eptwin measure` and `eptwin fit` "
              "write it." },
};

/* The most important keys.  The first of them describe a machine's shape.  Any other key changes the time of dispatch
 * or combine on H100s by 20 to 90 %, if its value is halved or doubled.  Only the rate of the GPU's memory changes it
 * by no more than 8 %.  The kernels were low latency on 8 and 32 ranks, normal on 8 and 16, and V2 on 8. */
static const char *const first[] = {
    "nvlink.gpus",
    "node.nics",
    "nic.ports",
    "nic.rate",
    "nic.posting",
    "network.latency",
    "network.topology",
    "network.nodes-per-leaf",
    "network.oversubscription",
    "network.hop",
    "network.routing",
    "node.pcie-rate",
    "node.staging",
    "gpu.sms",
    "gpu.hbm-rate",
    "nvlink.egress-rate",
    "nvlink.ingress-rate",
    "nvlink.bulk-rate",
    "nvlink.unaligned-rate",
    "nvlink.split-rate",
    "nvlink.sector-rate",
    "gpu.bulk-out-rate",
    "gpu.bulk-request",
    "gpu.store-sm-rate",
    "gpu.load",
};

static const char *kind_text(const struct cluster_key *key)
{
#define FORM(name, form, expected) form,
    static const char *const text[] = { CLUSTER_KINDS(FORM) };
    return key->kind == KIND_CHOICE ? key->choices : text[key->kind];
}

/* Appends text in lines of at most COLUMNS characters, indented by `indent` blanks. */
static void wrap_append(GString *out, const char *text, int indent)
{
    g_auto(GStrv) word = g_strsplit(text, " ", -1);
    int column = 0;
    for (char **w = word; *w; w++) {
        const int length = (int)strlen(*w);
        if (column && column + 1 + length > COLUMNS) {
            while (out->str[out->len - 1] == ' ') g_string_truncate(out, out->len - 1);
            g_string_append_c(out, '\n');
            column = 0;
        }
        if (!column && !length) continue;
        if (column) column++, g_string_append_c(out, ' ');
        else column = indent, g_string_append_printf(out, "%*s", indent, "");
        g_string_append(out, *w);
        column += length;
    }
    g_string_append_c(out, '\n');
}

static void key_append(const struct cluster_key *key, bool with_section, GString *out)
{
    g_autofree char *name = with_section ? g_strdup_printf("[%s] %s", key->section, key->name)
                                         : g_strdup_printf(key->optional ? "(%s)" : "%s", key->name);
    g_string_append_printf(out, "  %s: %s\n", name, kind_text(key));
    wrap_append(out, key->meaning, INDENT);
}

static void section_append(size_t index, GString *out)
{
    const struct cluster_key *key;
    g_string_append_printf(out, "[%s]\n", sections[index].section);
    wrap_append(out, sections[index].about, 2);
    for (size_t i = 0; (key = cluster_key_at(i)); i++)
        if (!strcmp(key->section, sections[index].section)) key_append(key, false, out);
}

/* Whether the word names the key, as "section.key" or without its section. */
static bool key_is(const struct cluster_key *key, const char *word)
{
    const size_t length = strlen(key->section);
    if (!strcmp(word, key->name)) return true;
    return !strncmp(word, key->section, length) && word[length] == '.' && !strcmp(word + length + 1, key->name);
}

static const struct cluster_key *key_find(const char *full)
{
    const struct cluster_key *key = NULL;
    for (size_t i = 0; (key = cluster_key_at(i)) && !key_is(key, full); i++) continue;
    return key;
}

static void first_append(GString *out)
{
    wrap_append(out, form, 0);
    g_string_append_printf(out,
                           "\nThe %d most important keys.  Your own file includes the files of the nearest GPU and\n"
                           "NIC (`eptwin cluster new` writes one) and lists only the differences.\n\n",
                           (int)G_N_ELEMENTS(first));
    for (size_t i = 0; i < G_N_ELEMENTS(first); i++) {
        const struct cluster_key *key = key_find(first[i]);
        g_assert(key);
        key_append(key, true, out);
    }
    g_string_append(out, "\nSections, for `eptwin cluster keys SECTION`:\n");
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) g_string_append_printf(out, "  %s\n", sections[i].section);
}

static bool refuse(const char *what, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    const struct cluster_key *key;
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) g_ptr_array_add(names, g_strdup(sections[i].section));
    for (size_t i = 0; (key = cluster_key_at(i)); i++)
        g_ptr_array_add(names,
                        strchr(what, '.') ? g_strconcat(key->section, ".", key->name, NULL) : g_strdup(key->name));
    g_ptr_array_add(names, NULL);
    g_autofree char *meant = text_meant(what, (const char *const *)names->pdata);
    return error_input(error, "expected a section, a key, SECTION.KEY or all, found '%s'%s", what, meant);
}

bool cluster_teach(const char *what, GString *out, GError **error)
{
    if (!what) {
        first_append(out);
        return true;
    }
    const struct cluster_key *key;
    bool found = false;
    for (size_t i = 0; (key = cluster_key_at(i)); i++) {
        if (!key_is(key, what)) continue;
        key_append(key, true, out);
        found = true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) {
        if (strcmp(what, "all") != 0 && strcmp(what, sections[i].section) != 0) continue;
        if (found) g_string_append_c(out, '\n');
        section_append(i, out);
        found = true;
    }
    return found || refuse(what, error);
}

/* ---- the manual page ---- */

/* Appends text.  Escapes what roff would interpret: backslashes and dashes, and a dot or a quote at the start. */
static void roff_append(GString *out, const char *text)
{
    if (*text == '.' || *text == '\'') g_string_append(out, "\\&");
    for (; *text; text++) {
        if (*text == '\\') g_string_append(out, "\\e");
        else if (*text == '-') g_string_append(out, "\\-");
        else g_string_append_c(out, *text);
    }
    g_string_append_c(out, '\n');
}

void cluster_teach_man(GString *out)
{
    const struct cluster_key *key;
    g_string_append(out, ".TH EPTWIN\\-CLUSTER 5 \"\" eptwin eptwin\n.SH NAME\n"
                         "eptwin\\-cluster \\- cluster files: the machines that eptwin can predict\n.SH DESCRIPTION\n");
    roff_append(out, form);
    for (size_t s = 0; s < G_N_ELEMENTS(sections); s++) {
        g_string_append_printf(out, ".SH \"[%s]\"\n", sections[s].section);
        roff_append(out, sections[s].about);
        for (size_t i = 0; (key = cluster_key_at(i)); i++) {
            if (strcmp(key->section, sections[s].section) != 0) continue;
            g_string_append(out, ".TP\n.B ");
            g_autofree char *head =
                g_strdup_printf("%s (%s%s)", key->name, kind_text(key), key->optional ? ", optional" : "");
            roff_append(out, head);
            roff_append(out, key->meaning);
        }
    }
    g_string_append(out, ".SH SEE ALSO\n.BR eptwin\\-cluster (1)\n");
}
