/* fuzz_net.c - libFuzzer target of config.json.  A net that is accepted must have sizes within their limits. */
#include <stdint.h>
#include <stdlib.h>

#include "models/step/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    g_autoptr(GError) error = NULL;
    struct net *net = net_parse("fuzz", (const char *)data, size_bytes, &error);
    if (!net != (error != NULL)) abort();
    if (net && (!net->topk || net->topk > net->experts || net->dense_layers >= net->layers || !net->heads ||
                !net_attention_weights(net) || !net_experts_weights(net)))
        abort();
    net_free(net);
    return 0;
}
