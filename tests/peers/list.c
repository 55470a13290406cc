/* list.c - prints a drawn list of messages (traces/edges_make.h), so that every simulator reads the same list.
 *
 * list SPEC RANKS [SEED]: SPEC is a text as for --matrix.  Rows have 7168 bytes. */
#include <stdio.h>
#include "traces/edges_make.h"

int main(int argc, char **argv)
{
    struct edges e;
    GError *error = NULL;
    guint64 ranks = 0, seed = 0;
    if (argc < 3 || argc > 4 || !g_ascii_string_to_unsigned(argv[2], 10, 1, EDGES_RANKS_MAX, &ranks, NULL) ||
        (argc == 4 && !g_ascii_string_to_unsigned(argv[3], 10, 0, G_MAXUINT64, &seed, NULL))) {
        fprintf(stderr, "list: SPEC RANKS [SEED]\n");
        return 2;
    }
    if (!edges_make(argv[1], (uint32_t)ranks, 7168, seed, &e, &error)) {
        fprintf(stderr, "list: %s\n", error->message);
        return 2;
    }
    printf("%u %u\n", e.ranks, edges_count(&e));
    for (uint32_t s = 0; s < e.ranks; s++)
        for (uint32_t i = e.first[s]; i < e.first[s + 1]; i++) printf("%u %u %u\n", s, e.target[i], e.size_bytes[i]);
    edges_free(&e);
    return 0;
}
