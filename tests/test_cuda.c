/* test_cuda.c - what can be tested of GPU measurements without a GPU.  If ptxas is installed, it must accept the
 * kernels and find room for their registers.  Every kernel that the benchmarks name must exist. */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include "replay/cuda/cuda_ptx.h"
#include "tests/unit.h"

static const char *const texts[] = { cuda_ptx_copies, cuda_ptx_latencies, cuda_ptx_works };

static bool kernel_is_there(const char *name)
{
    g_autofree char *entry = g_strdup_printf(".entry %s(", name);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        if (strstr(texts[i], entry)) return true;
    return false;
}

TEST("every kernel that is named is there")
{
    static const char *const named[] = { "copy_1",
                                         "copy_5",
                                         "load_8",
                                         "store_8",
                                         "load_words_8",
                                         "early",
                                         "late",
                                         "bulk",
                                         "cast",
                                         "sum",
                                         "sum_shared",
                                         "sum_staged",
                                         "logs",
                                         "exps",
                                         "spin",
                                         "stamp",
                                         "empty",
                                         "alone_fence_sys",
                                         "chase_nc",
                                         "after_st_release_sys",
                                         "flag_release_sys",
                                         "grid_barrier",
                                         "gpu_barrier",
                                         "block_barrier",
                                         "red_gpu" };
    for (size_t i = 0; i < G_N_ELEMENTS(named); i++) {
        if (!kernel_is_there(named[i])) fprintf(stderr, "  no kernel %s\n", named[i]);
        CU_ASSERT(kernel_is_there(named[i]));
    }
    CU_ASSERT_FALSE(kernel_is_there("nothing"));
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        CU_ASSERT(g_str_has_prefix(texts[i], ".version 8.0 .target sm_90 .address_size 64"));
        CU_ASSERT_PTR_NULL(strstr(texts[i], "ARG_")); /* all macros must have been replaced */
        CU_ASSERT_PTR_NULL(strstr(texts[i], "FLAG_"));
    }
}

static char *ptxas_find(void)
{
    char *found = g_find_program_in_path("ptxas");
    if (!found && g_file_test("/usr/local/cuda/bin/ptxas", G_FILE_TEST_IS_EXECUTABLE))
        found = g_strdup("/usr/local/cuda/bin/ptxas");
    return found;
}

TEST("ptxas takes the kernels, without spilling registers")
{
    g_autofree char *ptxas = ptxas_find();
    if (!ptxas) return; /* without ptxas, only a driver could compile the text */
    g_autofree char *folder = g_dir_make_tmp("eptwin-XXXXXX", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autofree char *source = g_build_filename(folder, "kernels.ptx", NULL);
        g_autofree char *said = NULL, *complaint = NULL;
        char *command[] = { ptxas, "-arch=sm_90", "-v", "-o", "/dev/null", source, NULL };
        int status = -1;
        CU_ASSERT(g_file_set_contents(source, texts[i], -1, NULL));
        CU_ASSERT(g_spawn_sync(NULL, command, NULL, 0, NULL, NULL, &said, &complaint, &status, NULL));
        CU_ASSERT_EQUAL(status, 0);
        if (status != 0) fprintf(stderr, "%s\n", complaint);
        for (const char *spill = complaint; (spill = strstr(spill, " bytes spill stores")); spill++)
            CU_ASSERT(spill[-1] == '0' && spill[-2] == ' ');
        g_unlink(source);
    }
    g_rmdir(folder);
}
