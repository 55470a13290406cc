/* test_probe.c - are a host's files, and the output of other tools, read correctly?
 *
 * Trees of four kinds of host are written to a temporary folder as /sys and /proc show them.  An HGX H100 node has two
 * PCIe switches with one GPU and one NIC below each, and ACS is on in one switch.  A GH200 node has Cassini NICs and
 * C2C.  The third node has GPUs on two sockets, on PCIe only.  The fourth host is a virtual machine that hides widths.
 * Each tree is read from the folder and from the archive that --save makes of it.  Both must give the same text. */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "replay/probe/probe.h"
#include "replay/probe/probe_ibnet.h"
#include "replay/probe/probe_source.h"
#include "tests/unit.h"

static char *folder;

static void put_bytes(const char *path, const char *data, gssize size)
{
    g_autofree char *full = g_build_filename(folder, path, NULL), *parent = g_path_get_dirname(full);
    CU_ASSERT_EQUAL_FATAL(g_mkdir_with_parents(parent, 0755), 0);
    CU_ASSERT_TRUE_FATAL(g_file_set_contents(full, data, size, NULL));
}

static void put(const char *path, const char *text) { put_bytes(path, text, -1); }

static void put_link(const char *path, const char *target)
{
    g_autofree char *full = g_build_filename(folder, path, NULL), *parent = g_path_get_dirname(full);
    CU_ASSERT_EQUAL_FATAL(g_mkdir_with_parents(parent, 0755), 0);
    CU_ASSERT_EQUAL_FATAL(symlink(target, full), 0);
}

static void remove_tree(const char *path)
{
    GDir *dir = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        g_autofree char *below = g_build_filename(path, name, NULL);
        remove_tree(below);
    }
    if (dir) g_dir_close(dir);
    g_remove(path);
}

struct function {
    const char *path, *class_code, *vendor, *device, *numa, *width, *width_max, *gts;
};

/* Writes a PCI function to sys/devices in the test's folder, and a link to it to sys/bus/pci/devices. */
static void put_function(const struct function *f)
{
    const struct {
        const char *name, *value;
    } file[] = {
        { "class", f->class_code },
        { "vendor", f->vendor },
        { "device", f->device },
        { "numa_node", f->numa },
        { "current_link_width", f->width },
        { "max_link_width", f->width_max },
        { "current_link_speed", f->gts },
        { "max_link_speed", f->gts },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(file); i++) {
        if (!file[i].value) continue;
        g_autofree char *path = g_strdup_printf("sys/devices/%s/%s", f->path, file[i].name);
        g_autofree char *text = g_strdup_printf("%s\n", file[i].value);
        put(path, text);
    }
    g_autofree char *name = g_path_get_basename(f->path), *link = g_strdup_printf("sys/bus/pci/devices/%s", name);
    g_autofree char *target = g_strdup_printf("../../../devices/%s", f->path);
    put_link(link, target);
}

static void put_rdma(const char *name, const char *path, const char *rate, const char *layer, const char *gid_type)
{
    g_autofree char *base = g_strdup_printf("sys/devices/%s/infiniband/%s", path, name);
    const struct {
        const char *name, *value;
    } file[] = {
        { "ports/1/rate", rate },
        { "ports/1/state", "4: ACTIVE" },
        { "ports/1/link_layer", layer },
        { "ports/1/gid_attrs/types/0", gid_type },
    };
    for (gsize i = 0; i < G_N_ELEMENTS(file); i++) {
        g_autofree char *at = g_strdup_printf("%s/%s", base, file[i].name);
        put(at, file[i].value);
    }
    g_autofree char *link = g_strdup_printf("sys/class/infiniband/%s", name);
    g_autofree char *target = g_strdup_printf("../../devices/%s/infiniband/%s", path, name);
    put_link(link, target);
    g_autofree char *device = g_strdup_printf("%s/device", base);
    put_link(device, "../..");
    g_autofree char *driver = g_strdup_printf("sys/devices/%s/driver", path);
    put_link(driver, "../../../../../../../bus/pci/drivers/mlx5_core");
}

/* Writes the extended configuration space of a bridge.  `control` is its ACS control word. */
static void put_acs(const char *path, uint16_t control)
{
    char config[512] = { 0 };
    config[0x100] = 0x0d; /* the ACS capability, version 1, last of the list */
    config[0x102] = 0x01;
    config[0x106] = (char)(control & 0xff);
    config[0x107] = (char)(control >> 8);
    g_autofree char *at = g_strdup_printf("sys/devices/%s/config", path);
    put_bytes(at, config, sizeof config);
}

#define SWITCH_A "pci0000:15/0000:15:01.0/0000:16:00.0"
#define SWITCH_B "pci0000:85/0000:85:01.0/0000:86:00.0"

static void put_hgx(void)
{
    put("proc/cpuinfo", "processor : 0\nmodel name : Xeon 8480C\nflags : fpu sse\nprocessor : 1\n");
    put("proc/self/limits",
        "Limit  Soft  Hard  Units\nMax locked memory         unlimited            unlimited            bytes\n");
    put("proc/modules", "nvidia_peermem 16384 0 - Live 0x0\ngdrdrv 24576 0 - Live 0x0\n");
    put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1\n");
    put("proc/driver/nvidia/params", "EnableStreamMemOPs: 1\nRegistryDwords: \"PeerMappingOverride=1;\"\n");
    put_bytes("proc/self/environ", "NVSHMEM_HCA_PE_MAPPING=mlx5_0:1:8\0", 35);
    put("sys/devices/system/node/node0/cpulist", "0-55\n");
    put("sys/devices/system/node/node1/cpulist", "56-111\n");
    put_function(&(struct function){ SWITCH_A "/0000:17:00.0/0000:18:00.0", "0x030200", "0x10de", "0x2330", "0", "16",
                                     "16", "32.0 GT/s PCIe" });
    put_function(&(struct function){ SWITCH_A "/0000:17:01.0/0000:19:00.0", "0x020700", "0x15b3", "0x1021", "0", "8",
                                     "16", "32.0 GT/s PCIe" });
    put_function(&(struct function){ SWITCH_B "/0000:87:00.0/0000:88:00.0", "0x030200", "0x10de", "0x2330", "1", "16",
                                     "16", "32.0 GT/s PCIe" });
    put_function(&(struct function){ SWITCH_B "/0000:87:01.0/0000:89:00.0", "0x020700", "0x15b3", "0x1021", "1", "16",
                                     "16", "32.0 GT/s PCIe" });
    put_acs(SWITCH_A "/0000:17:00.0", 0x1d);
    put_acs(SWITCH_A "/0000:17:01.0", 0);
    put_rdma("mlx5_0", SWITCH_A "/0000:17:01.0/0000:19:00.0", "400 Gb/sec (4X NDR)", "InfiniBand", "IB/RoCE v1");
    put_rdma("mlx5_1", SWITCH_B "/0000:87:01.0/0000:89:00.0", "400 Gb/sec (4X NDR)", "InfiniBand", "IB/RoCE v1");
}

static void put_alps(void)
{
    put("proc/cpuinfo", "processor : 0\n");
    put_function(&(struct function){ "pci0009:00/0009:00:00.0/0009:01:00.0", "0x030200", "0x10de", "0x2342", "0", "1",
                                     "1", "2.5 GT/s PCIe" });
    put_function(&(struct function){ "pci0002:00/0002:00:00.0/0002:01:00.0", "0x020000", "0x17db", "0x0501", "0", "16",
                                     "16", "16.0 GT/s PCIe" });
    put_link("sys/class/cxi/cxi0", "../../devices/pci0002:00/0002:00:00.0/0002:01:00.0/cxi/cxi0");
    put("sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0/cxi/cxi0/uevent", "");
    put_link("sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0/cxi/cxi0/device", "../..");
}

static void put_pcie_only(void)
{
    put("proc/cpuinfo", "processor : 0\nflags : fpu\n");
    put_function(&(struct function){ "pci0000:00/0000:00:01.0/0000:01:00.0", "0x030000", "0x10de", "0x27b8", "0", "16",
                                     "16", "16.0 GT/s PCIe" });
    put_function(&(struct function){ "pci0000:00/0000:00:02.0/0000:02:00.0", "0x020000", "0x15b3", "0x101d", "0", "16",
                                     "16", "16.0 GT/s PCIe" });
    put_function(&(struct function){ "pci0000:80/0000:80:01.0/0000:81:00.0", "0x030000", "0x10de", "0x27b8", "1", "16",
                                     "16", "16.0 GT/s PCIe" });
    put_rdma("mlx5_0", "pci0000:00/0000:00:02.0/0000:02:00.0", "100 Gb/sec (2X HDR)", "Ethernet", "IB/RoCE v1");
    put("sys/kernel/iommu_groups/0/type", "DMA-FQ\n");
}

static void put_vm(void)
{
    put("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor\n");
    put_function(
        &(struct function){ "pci0000:00/0000:00:05.0", "0x030200", "0x10de", "0x2330", "-1", "0", "255", "Unknown" });
    put_function(
        &(struct function){ "pci0000:00/0000:00:06.0", "0x020000", "0x15b3", "0x101e", "-1", "0", "0", "Unknown" });
}

/* ---- reading back ---- */

static char *text_of(const char *root, const char *save)
{
    g_autoptr(GError) error = NULL;
    struct probe_source *source = MADE(probe_source_open(root, &error));
    struct probe_host *host = MADE(probe_host_read(source, "host", &error));
    probe_checks_run(host, source);
    GString *text = g_string_new(NULL);
    probe_text_append(host, text);
    if (save) CU_ASSERT_TRUE(probe_source_save(source, save, &error));
    probe_host_free(host);
    probe_source_free(source);
    return g_string_free(text, FALSE);
}

static void tell(void (*make)(void), const char *const *wanted)
{
    folder = g_dir_make_tmp("probe-XXXXXX", NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(folder);
    make();
    g_autofree char *archive = g_strdup_printf("%s/host.tar.zst", folder);
    g_autofree char *live = text_of(folder, archive), *saved = text_of(archive, NULL);
    CU_ASSERT_STRING_EQUAL(live, saved);
    for (; *wanted; wanted++) {
        const bool absent = **wanted == '!';
        const bool found = strstr(live, *wanted + absent) != NULL;
        if (found == absent)
            fprintf(stderr, "%s '%s' in\n%s\n", absent ? "unexpected" : "missing", *wanted + absent, live);
        CU_ASSERT_NOT_EQUAL(found, absent);
    }
    remove_tree(folder);
    g_free(folder);
}

TEST("HGX H100: switches, ACS, narrow slot, one NIC for all ranks")
{
    static const char *const wanted[] = {
        "2 GPUs, 2 NICs",
        "0000:18:00.0  H100 SXM  0",
        "mlx5_0       PIX",
        "mlx5_1       PIX",
        "400 Gbit/s  InfiniBand",
        "x8 at 32 GT/s, 31.5 GB/s",
        "FAIL     ports      mlx5_0: PCIe x8 of x16",
        "FAIL     gpudirect  ACS does not redirect: a bridge above a GPU sends peer traffic",
        "pass     gpudirect  peer memory: nvidia_peermem is loaded",
        "pass     ibgda      GDRCopy",
        "pass     ibgda      EnableStreamMemOPs",
        "FAIL     nvshmem    NICs for each rank",
        "names 1 of 2 NICs",
        "pass     memory     locked memory: unlimited",
        "pass     gpudirect  IOMMU does not translate",
        "pass     gpudirect  a NIC at each GPU's root complex: 0 of 2",
        NULL,
    };
    tell(put_hgx, wanted);
}

TEST("GH200 with Cassini NICs")
{
    static const char *const wanted[] = {
        "GH200", "cxi0", "Slingshot", "Cassini (Slingshot-11)", "FAIL     cxi        NVSHMEM_DISABLE_CUDA_VMM: not set",
        NULL,
    };
    tell(put_alps, wanted);
}

TEST("GPUs on PCIe only, one across the socket")
{
    static const char *const wanted[] = {
        "2 GPUs, 1 NIC\n",
        "mlx5_0       PHB",
        "mlx5_0       SYS",
        "FAIL     gpudirect  IOMMU does not translate",
        "FAIL     gpudirect  a NIC at each GPU's root complex: 1 of 2",
        "FAIL     ports      mlx5_0: no RoCE v2 GID",
        "!H100",
        NULL,
    };
    tell(put_pcie_only, wanted);
}

TEST("a virtual machine hides widths")
{
    static const char *const wanted[] = {
        "VM         yes", "H100 SXM", "ConnectX virtual function", "!GT/s", "!x255", NULL,
    };
    tell(put_vm, wanted);
}

/* ---- hostile trees ---- */

TEST("links do not lead out of a tree")
{
    folder = g_dir_make_tmp("probe-XXXXXX", NULL);
    put("proc/cpuinfo", "processor : 0\n");
    put_link("sys/loop", "loop");
    put_link("sys/up", "../../../../../../etc/passwd");
    put_link("sys/absolute", "/etc/passwd");
    put("etc/passwd", "inside\n");
    for (int archived = 0; archived < 2; archived++) {
        g_autofree char *archive = g_strdup_printf("%s/host.tar", folder);
        if (archived) {
            g_autofree char *command = g_strdup_printf("cd %s && tar cf host.tar proc sys etc", folder);
            CU_ASSERT_EQUAL_FATAL(system(command), 0);
        }
        struct probe_source *source = MADE(probe_source_open(archived ? archive : folder, NULL));
        gsize size;
        CU_ASSERT_PTR_NULL(probe_source_read(source, "/sys/loop", &size));
        g_autofree char *up = probe_source_line(source, "/sys/up"),
                        *absolute = probe_source_line(source, "/sys/absolute");
        CU_ASSERT_STRING_EQUAL(up ? up : "", "inside");
        CU_ASSERT_STRING_EQUAL(absolute ? absolute : "", "inside");
        probe_source_free(source);
    }
    remove_tree(folder);
    g_free(folder);
}

TEST("what is no tree")
{
    g_autoptr(GError) missing = NULL, broken = NULL, empty = NULL;
    CU_ASSERT_PTR_NULL(probe_source_open("/nonexistent/tree", &missing));
    CU_ASSERT_PTR_NOT_NULL(missing);
    folder = g_dir_make_tmp("probe-XXXXXX", NULL);
    put("host.tar.zst", "(\265/\375 not an archive");
    g_autofree char *path = g_build_filename(folder, "host.tar.zst", NULL);
    CU_ASSERT_PTR_NULL(probe_source_open(path, &broken));
    CU_ASSERT_PTR_NOT_NULL(broken);
    g_autofree char *inside = g_build_filename(folder, "nothing", NULL);
    g_mkdir(inside, 0755);
    struct probe_source *source = probe_source_open(inside, NULL);
    CU_ASSERT_PTR_NULL(probe_host_read(source, "nothing", &empty));
    CU_ASSERT_PTR_NOT_NULL_FATAL(empty);
    CU_ASSERT_STRING_EQUAL(empty->message, "nothing: expected a host's /sys and /proc, found neither");
    probe_source_free(source);
    remove_tree(folder);
    g_free(folder);
}

/* ---- other tools' output ---- */

TEST("NCCL's XML, whole and cut")
{
    static const char xml[] =
        "<system version=\"1\"><cpu numaid=\"1\">\n"
        "<pci busid=\"0000:16:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s PCIe\" link_width=\"1\">\n"
        "<pci busid=\"0000:18:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2335\" link_speed=\"32.0 GT/s "
        "PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\"><nvlink target=\"a\" count=\"10\"/><nvlink target=\"b\" "
        "count=\"8\"/></gpu></pci>\n"
        "<pci busid=\"0000:19:00.0\" class=\"0x020000\" vendor=\"0x15b3\" device=\"0x1021\" link_speed=\"32.0 GT/s "
        "PCIe\" link_width=\"0\"><nic><net name=\"mlx5_bond_0\" speed=\"400000\"/></nic></pci></pci></cpu></system>\n";
    g_autoptr(GError) error = NULL;
    struct probe_host *host = MADE(probe_nccl_parse(xml, sizeof xml - 1, "t", &error));
    CU_ASSERT_EQUAL(host->gpu_count, 1);
    CU_ASSERT_EQUAL(host->nic_count, 1);
    CU_ASSERT_EQUAL(host->gpu[0].nvlinks, 18);
    CU_ASSERT_EQUAL(host->gpu[0].pci.numa, 1);
    CU_ASSERT_EQUAL(host->gpu[0].pci.width, 16);
    CU_ASSERT_EQUAL(host->nic[0].pci.width, 0);
    CU_ASSERT_EQUAL(host->nic[0].rate_bps, 400000000000u);
    CU_ASSERT_TRUE(host->nic[0].bond);
    CU_ASSERT_EQUAL(probe_host_near(host, 0, 0), PROBE_NEAR_PIX);
    probe_host_free(host);
    for (gsize cut = 0; cut + 2 < sizeof xml; cut += 7) {
        g_autoptr(GError) truncated = NULL;
        CU_ASSERT_PTR_NULL(probe_nccl_parse(xml, cut, "t", &truncated));
        CU_ASSERT_PTR_NOT_NULL(truncated);
    }
    g_autoptr(GError) other = NULL;
    CU_ASSERT_PTR_NULL(probe_nccl_parse("<html/>", 7, "t", &other));
    CU_ASSERT_STRING_EQUAL(other->message, "t:1: expected <system>, found <html>");
}

TEST("nvidia-smi topo -m")
{
    static const char table[] =
        "\t\033[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\r\n"
        "GPU0\t X \tNV18\tSYS\tPXB\t0-63,128-191\t0\t\tN/A\r\n"
        "GPU1\tNV18\t X \tPIX\tSYS\t64-127\t1,19-25\t\t10\r\n"
        "NIC0\tSYS\tPIX\t X \tSYS\t\t\t\t\r\n\r\nNIC Legend:\r\n\r\n  NIC0: mlx5_0\r\n  NIC1: mlx5_bond_1\r\n";
    g_autoptr(GError) error = NULL;
    struct probe_host *host = MADE(probe_smi_parse(table, "t", &error));
    CU_ASSERT_EQUAL(host->gpu_count, 2);
    CU_ASSERT_EQUAL(host->nic_count, 2);
    CU_ASSERT_STRING_EQUAL(host->nic[1].name, "mlx5_bond_1");
    CU_ASSERT_EQUAL(probe_host_near(host, 0, 1), PROBE_NEAR_PXB);
    CU_ASSERT_EQUAL(probe_nearest_nic(host, 1), 0);
    CU_ASSERT_EQUAL(host->gpu[1].pci.numa, 1);
    probe_host_free(host);
    g_autoptr(GError) word = NULL, nothing = NULL;
    CU_ASSERT_PTR_NULL(probe_smi_parse("\tGPU0\tNIC0\nGPU0\t X \tFAR\n", "t", &word));
    CU_ASSERT_STRING_EQUAL(word->message, "t:2: NIC0: expected X, NV#, PIX, PXB, PHB, NODE or SYS, found 'FAR'");
    CU_ASSERT_PTR_NULL(probe_smi_parse("hello GPU\n", "t", &nothing));
    CU_ASSERT_PTR_NULL(probe_smi_parse("GPU0 Xylophone\n", "t", NULL)); /* the reader must return at a line of unknown
                                                                         * form */
}

TEST("ibnetdiscover")
{
    static const char text[] =
        "Switch\t36 \"S-1\"\t# \"leaf 1\" base port 0\n[1]\t\"H-1\"[1](1)\t# \"n1 HCA-1\" lid 1 4xNDR\n"
        "[2]\t\"H-2\"[1](1)\t# \"n2 HCA-1\" lid 2 4xNDR\n[3]\t\"S-2\"[1]\t# \"spine\" lid 3 4xNDR\n"
        "Switch\t36 \"S-2\"\t# \"spine\"\n[1]\t\"S-1\"[3]\t# \"leaf 1\" lid 4 4xNDR\n"
        "Ca\t1 \"H-1\"\t# \"n1\"\n[1](1)\t\"S-1\"[1]\t# lid 1 4xNDR\n";
    g_autoptr(GError) error = NULL, rate = NULL;
    struct probe_ibnet *net = MADE(probe_ibnet_parse(text, "t", &error));
    CU_ASSERT_EQUAL(net->sw->len, 2);
    CU_ASSERT_EQUAL(net->cable->len, 3);
    CU_ASSERT_EQUAL(net->hosts, 2);
    CU_ASSERT_EQUAL(net->host_bps, 400000000000u);
    CU_ASSERT_DOUBLE_EQUAL(probe_ibnet_oversubscription(net), 2, 1e-9);
    probe_ibnet_free(net);
    CU_ASSERT_PTR_NULL(probe_ibnet_parse("Switch 4 \"S-1\"\n[1] \"H-1\"[1] # 4xFAST\n", "t", &rate));
    CU_ASSERT_STRING_EQUAL(
        rate->message, "t:2: expected [PORT] \"H-... or S-...\"[PORT] # ... 4xRATE, found '[1] \"H-1\"[1] # 4xFAST'");
    CU_ASSERT_EQUAL(probe_ib_rate("4xHDR"), 200000000000u);
    CU_ASSERT_EQUAL(probe_ib_rate("4xABC"), 0);
}

TEST("iblinkinfo")
{
    static const char text[] =
        "CA: n1 HCA-1:\n"
        "      0x0002c903000cc89b      7    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       1    1[  ] "
        "\"leaf\" ( )\n"
        "Switch: 0x0001 leaf one:\n"
        "   1    1[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       7    1[  ] \"n1 HCA-1\" ( )\n"
        "   1    2[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       8    1[  ] \"n2 HCA-1\" ( )\n"
        "   1    3[  ] ==( 1X      106.25 Gbps Active/  LinkUp)==>       2    1[  ] \"spine\" ( Could be 4X )\n"
        "   1    4[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n"
        "   1    5[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       2    2[  ] \"spine\" ( )\n"
        "Switch: 0x0002 spine:\n"
        "   2    1[  ] ==( 1X      106.25 Gbps Active/  LinkUp)==>       1    3[  ] \"leaf one\" ( )\n"
        "   2    2[  ] ==( 4X      106.25 Gbps Active/  LinkUp)==>       1    5[  ] \"leaf one\" ( )\n";
    g_autoptr(GError) error = NULL, far = NULL, rate = NULL;
    struct probe_ibnet *net = MADE(probe_ibnet_parse(text, "t", &error));
    CU_ASSERT_EQUAL(net->sw->len, 2);
    CU_ASSERT_STRING_EQUAL(g_array_index(net->sw, struct probe_switch, 0).name, "leaf one");
    CU_ASSERT_EQUAL(g_array_index(net->sw, struct probe_switch, 0).ports, 5);
    CU_ASSERT_EQUAL(net->cable->len, 4); /* a cable between switches counts once */
    CU_ASSERT_EQUAL(net->hosts, 2);
    CU_ASSERT_STRING_EQUAL(g_array_index(net->cable, struct probe_cable, 0).node, "n1");
    CU_ASSERT_TRUE(g_array_index(net->cable, struct probe_cable, 2).slow);
    CU_ASSERT_FALSE(g_array_index(net->cable, struct probe_cable, 3).slow);
    CU_ASSERT_EQUAL(net->host_bps, 400000000000u);
    CU_ASSERT_DOUBLE_EQUAL(probe_ibnet_oversubscription(net), 1.6, 1e-9); /* 800 Gb/s go to hosts, 100 and 400 Gb/s go
                                                                           * up */
    probe_ibnet_free(net);
    CU_ASSERT_PTR_NULL(probe_ibnet_parse(" 1 2[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> here \"\"\n", "t", &far));
    CU_ASSERT_TRUE(g_str_has_prefix(far->message, "t:1: expected LID PORT[ ] ==( 4X"));
    CU_ASSERT_PTR_NULL(probe_ibnet_parse(" 1 2[ ] ==( 4X 11.0 Gbps Active/ LinkUp)==> 3 4[ ] \"\"\n", "t", &rate));
    CU_ASSERT_TRUE(g_str_has_prefix(rate->message, "t:1: expected LID PORT[ ] ==( 4X"));
    net = probe_ibnet_parse(" 1 2[ ] ==( Down/ Polling)==> [ ] \"\" ( )\n", "t", &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(net);
    CU_ASSERT_EQUAL(net->cable->len, 0);
    probe_ibnet_free(net);
}
