/* fuzz_probe.c - libFuzzer target of the texts that probe reads.  The first byte chooses the reader of the other
 * bytes. */
#include <glib.h>
#include <stdint.h>

#include "replay/probe/probe.h"
#include "replay/probe/probe_ibnet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (!size_bytes) return 0;
    g_autofree char *text = g_strndup((const char *)data + 1, size_bytes - 1);
    g_autoptr(GString) out = g_string_new(NULL);
    struct probe_host *host = NULL;
    struct probe_ibnet *net = NULL;
    switch (data[0] % 4) {
    case 0: host = probe_nccl_parse((const char *)data + 1, size_bytes - 1, "fuzz", NULL); break;
    case 1: host = probe_smi_parse(text, "fuzz", NULL); break;
    case 2: net = probe_ibnet_parse(text, "fuzz", NULL); break;
    case 3: host = probe_ibstat_parse(text, "fuzz", NULL); break;
    }
    if (host) probe_text_append(host, out);
    if (net) probe_ibnet_text(net, out);
    probe_host_free(host);
    if (net) probe_ibnet_free(net);
    return 0;
}
