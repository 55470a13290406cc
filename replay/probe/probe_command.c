/* probe_command.c - `eptwin probe`: describes this host, a host of which a tree was captured, or what a tool's
 * output says. */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "replay/probe/probe.h"
#include "replay/probe/probe_ibnet.h"
#include "replay/probe/probe_source.h"
#include "reports/whole_file.h"
#include "sim/command.h"
#include "sim/command_line.h"

static const char probe_about[] =
    "Describes this host: GPUs, NICs and ports, PCIe paths with widths and speeds, and who shares a root complex.\n"
    "Also checks the requirements of GPUDirect RDMA, IBGDA, GDRCopy and libfabric/CXI, and says what to do if one\n"
    "is missing.  Given files, it describes what they contain: NCCL's topology XML, `nvidia-smi topo -m`,\n"
    "`ibstat`, `ibnetdiscover`, `iblinkinfo`.\n"
    "\n"
    "  eptwin probe                             # this host\n"
    "  eptwin probe --save host.tar.zst         # also save what was read, to examine elsewhere\n"
    "  eptwin probe --root host.tar.zst         # a saved host (or a folder with sys/ and proc/)\n"
    "  eptwin probe topo.txt ibstat.txt         # output of tools, with the NICs' rates from ibstat\n"
    "  eptwin probe --output cluster.ini        # as a cluster file: the node and its NICs; unknown values are "
    "comments\n"
    "\n"
    "'?' means unknown: virtual machines hide widths, and only root can read all of the PCI configuration space.";

enum { INPUT_BYTES_MAX = 64 << 20 };

struct probe_options {
    char *root, *save, *output, *include;
    char **files;
};

static bool options_parse(struct probe_options *options, int argc, char **argv, GError **error)
{
    GOptionEntry entries[] = {
        { "root", 0, 0, G_OPTION_ARG_FILENAME, &options->root, "Read a captured tree: a folder, or a file from --save",
          "TREE" },
        { "save", 0, 0, G_OPTION_ARG_FILENAME, &options->save, "Save everything that was read in FILE (.tar.zst)",
          "FILE" },
        COMMAND_LINE_OUTPUT(&options->output, "Also write a cluster file ('-': to standard output, and nothing else)"),
        { "include", 0, 0, G_OPTION_ARG_STRING, &options->include,
          "With --output: the cluster file that describes the GPU", "CLUSTER" },
        { 0 },
    };
    const struct command_topic topics[] = { { "Options", entries, false }, { 0 } };
    const struct command_line line = {
        .name = "probe", .arguments = "[FILE...]", .about = probe_about, .topics = topics
    };
    if (!command_line_parse(&line, argc, argv, &options->files, error)) return false;
    if (options->files[0] && (options->root || options->save))
        return error_input(error, "expected files, or --root and --save, found both");
    return !options->include || options->output || error_input(error, "--include: expected --output too, found none");
}

/* What was found: a host, a network, or both. */
struct findings {
    struct probe_host *host;
    struct probe_ibnet *net;
};

static void findings_clear(struct findings *f)
{
    probe_host_free(f->host);
    if (f->net) probe_ibnet_free(f->net);
}

/* Reads the output of `ibstat`.  If the host found earlier has these NICs, completes them.  Otherwise describes
 * these NICs alone. */
static bool ibstat_tell(const char *text, const char *path, struct findings *f, GString *out, GError **error)
{
    struct probe_host *nics = probe_ibstat_parse(text, path, error);
    if (!nics) return false;
    if (f->host && probe_nics_complete(f->host, nics)) {
        probe_host_free(nics);
        probe_text_append(f->host, out);
        return true;
    }
    probe_text_append(nics, out);
    probe_host_free(f->host);
    f->host = nics;
    return true;
}

/* Reads the output of a tool, and finds out which tool it is.  If there are several outputs of a tool, the last one
 * counts. */
static bool file_tell(const char *path, struct findings *f, GString *out, GError **error)
{
    gsize size = 0;
    g_autofree char *text = whole_file_read(path, INPUT_BYTES_MAX, &size, error);
    if (!text) return false;
    const char *start = text + strspn(text, " \t\r\n");
    if (*start != '<' && (strstr(text, "Switch") || strstr(text, "==("))) {
        struct probe_ibnet *net = probe_ibnet_parse(text, path, error);
        if (!net) return false;
        probe_ibnet_text(net, out);
        if (f->net) probe_ibnet_free(f->net);
        f->net = net;
        return true;
    }
    if (g_str_has_prefix(start, "CA ")) return ibstat_tell(text, path, f, out, error);
    if (*start != '<' && !strstr(text, "GPU"))
        return error_input(error,
                           "%s: expected NCCL's topology XML, the matrix of `nvidia-smi topo -m` or the output of "
                           "ibstat, ibnetdiscover or iblinkinfo, found '%.*s'",
                           path, (int)MIN(strcspn(start, "\r\n"), 30), start);
    struct probe_host *host =
        *start == '<' ? probe_nccl_parse(text, size, path, error) : probe_smi_parse(text, path, error);
    if (!host) return false;
    probe_text_append(host, out);
    probe_host_free(f->host);
    f->host = host;
    return true;
}

static bool tree_tell(const struct probe_options *options, struct findings *f, GString *out, GError **error)
{
    struct probe_source *source = probe_source_open(options->root, error);
    if (!source) return false;
    f->host = probe_host_read(source, options->root ? options->root : "this host", error);
    if (f->host) probe_checks_run(f->host, source);
    if (f->host) probe_text_append(f->host, out);
    const bool good = f->host && (!options->save || probe_source_save(source, options->save, error));
    probe_source_free(source);
    return good;
}

static bool cluster_write(const struct probe_options *options, const struct findings *f, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    probe_cluster_append(f->host, f->net, options->include, text);
    return whole_file_write(options->output, text->str, text->len, error);
}

int command_probe(int argc, char **argv)
{
    struct probe_options options = { 0 };
    struct findings f = { 0 };
    GError *error = NULL;
    g_autoptr(GString) out = g_string_new(NULL);
    bool good = options_parse(&options, argc, argv, &error);
    if (good && options.files[0])
        for (char **file = options.files; good && *file; file++) {
            if (out->len) g_string_append_c(out, '\n');
            good = file_tell(*file, &f, out, &error);
        }
    else if (good) good = tree_tell(&options, &f, out, &error);
    if (good && options.output) good = cluster_write(&options, &f, &error);
    if (good && g_strcmp0(options.output, "-") != 0) fputs(out->str, stdout);
    findings_clear(&f);
    return good ? EXIT_OK : command_line_fail("probe", error);
}
