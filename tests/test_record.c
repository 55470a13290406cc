/* test_record.c - the result record.
 *
 * Aim: what is written reads back exactly, in both formats, for any number and any hostile word.  Damaged records are
 * refused, and the message names the line and the field.  Method: round trips over random doubles and awkward words; a
 * table of bad texts with the exact message.  A good text is cut at every byte, and every bit is flipped.  That must
 * never crash.  If the result is accepted, it must survive another round trip. */
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reports/record.h"
#include "sim/rng.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

static char *in_folder(const char *name) { return g_strdup(temporary_path(name)); }

/* Returns the text that record_write() makes. */
static char *written(const struct record *record, enum record_format format)
{
    g_autofree char *path = in_folder("written");
    char *text = NULL;
    GError *error = NULL;
    CU_ASSERT_TRUE(record_write(record, path, format, &error));
    CU_ASSERT_TRUE(g_file_get_contents(path, &text, NULL, NULL));
    g_unlink(path);
    return text;
}

static struct record *parsed(const char *text)
{
    GError *error = NULL;
    struct record *record = record_parse("test", text, strlen(text), &error);
    if (!record) fprintf(stderr, "unexpected: %s\n", error->message);
    CU_ASSERT_PTR_NOT_NULL_FATAL(record);
    return record;
}

static void assert_same(const struct record *a, const struct record *b)
{
    CU_ASSERT_EQUAL_FATAL(record_key_count(a), record_key_count(b));
    for (uint32_t i = 0; i < record_key_count(a); i++) {
        CU_ASSERT_STRING_EQUAL(record_key(a, i), record_key(b, i));
        CU_ASSERT_STRING_EQUAL(record_get(a, record_key(a, i)), record_get(b, record_key(b, i)));
    }
    CU_ASSERT_EQUAL_FATAL(record_row_count(a), record_row_count(b));
    for (uint32_t i = 0; i < record_row_count(a); i++) {
        const struct record_row *x = record_row(a, i), *y = record_row(b, i);
        CU_ASSERT_STRING_EQUAL(x->phase, y->phase);
        CU_ASSERT_EQUAL(x->rank, y->rank);
        CU_ASSERT_STRING_EQUAL(x->metric, y->metric);
        CU_ASSERT_STRING_EQUAL(record_row_text(x), record_row_text(y));
        CU_ASSERT_STRING_EQUAL(x->unit, y->unit);
        CU_ASSERT_TRUE((isnan(x->value) && isnan(y->value)) || memcmp(&x->value, &y->value, 8) == 0);
    }
}

static void assert_round_trips(const struct record *record)
{
    static const enum record_format formats[] = { RECORD_CSV, RECORD_JSON };
    for (int i = 0; i < 2; i++) {
        g_autofree char *text = written(record, formats[i]);
        g_autoptr(record) again = parsed(text);
        assert_same(record, again);
        g_autofree char *twice = written(again, formats[i]);
        CU_ASSERT_STRING_EQUAL(text, twice);
    }
}

TEST("the bytes of both formats")
{
    g_autoptr(record) record = record_new();
    record_set(record, "kind", "simulate");
    record_set(record, "seed", "%d", 3);
    record_set(record, "kind", "replay");
    record_add(record, "dispatch", RECORD_ALL, "time_us", 163.25, "us");
    record_add(record, "dispatch", 7, "time_us", NAN, "us");
    record_add_text(record, "dispatch", RECORD_ALL, "bottleneck", "nic_tx, \"left\"");
    g_autofree char *csv = written(record, RECORD_CSV), *json = written(record, RECORD_JSON);
    CU_ASSERT_STRING_EQUAL(csv, "# kind: replay\n# seed: 3\nphase,rank,metric,value,unit\n"
                                "dispatch,all,time_us,163.25,us\ndispatch,7,time_us,nan,us\n"
                                "dispatch,all,bottleneck,\"nic_tx, \"\"left\"\"\",\n");
    CU_ASSERT_STRING_EQUAL(
        json, "{\n\"header\": {\n  \"kind\": \"replay\",\n  \"seed\": \"3\"\n},\n\"rows\": [\n"
              "  {\"phase\": \"dispatch\", \"rank\": \"all\", \"metric\": \"time_us\", \"value\": 163.25, \"unit\": "
              "\"us\"},\n"
              "  {\"phase\": \"dispatch\", \"rank\": 7, \"metric\": \"time_us\", \"value\": null, \"unit\": \"us\"},\n"
              "  {\"phase\": \"dispatch\", \"rank\": \"all\", \"metric\": \"bottleneck\", \"value\": \"nic_tx, "
              "\\\"left\\\"\", \"unit\": \"\"}\n]\n}\n");
    assert_round_trips(record);
}

TEST("find")
{
    g_autoptr(record) record = record_new();
    CU_ASSERT_PTR_NULL(record_get(record, "kind"));
    CU_ASSERT_PTR_NULL(record_find(record, "dispatch", 0, "time_us"));
    for (int rank = 0; rank < 3000; rank++) record_add(record, "dispatch", rank, "time_us", rank, "us");
    record_add(record, "dispatch", 7, "time_us", -1, "us");
    CU_ASSERT_EQUAL(record_find(record, "dispatch", 7, "time_us")->value, 7); /* the first of two rows of rank 7 */
    CU_ASSERT_EQUAL(record_find(record, "dispatch", 2999, "time_us")->value, 2999);
    CU_ASSERT_PTR_NULL(record_find(record, "dispatch", RECORD_ALL, "time_us"));
    CU_ASSERT_PTR_NULL(record_find(record, "combine", 7, "time_us"));
    CU_ASSERT_EQUAL(record_row_count(record), 3001);
}

TEST("numbers round-trip exactly")
{
    static const double awkward[] = {
        0.0,    -0.0,     0.1,      1.0 / 3, 1e300, 5e-324, 1.7976931348623157e308, 1e15, 1e21, 123456789012345678.0,
        2.5e-7, INFINITY, -INFINITY
    };
    g_autoptr(record) record = record_new();
    struct rng rng = rng_seeded(11);
    for (size_t i = 0; i < G_N_ELEMENTS(awkward); i++) record_add(record, "p", (int32_t)i, "m", awkward[i], "us");
    for (int32_t i = 0; i < 20000; i++) {
        const uint64_t bits = rng_next(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        record_add(record, "q", i, "m", value, "us");
        const struct record_row *row = record_row(record, record_row_count(record) - 1);
        CU_ASSERT_TRUE(isfinite(value) ? row->value == value : isnan(row->value));
    }
    assert_round_trips(record);
    char text[RECORD_NUMBER_MAX];
    record_number_format(text, 0.1);
    CU_ASSERT_STRING_EQUAL(text, "0.1");
    record_number_format(text, 0.1 + 0.2);
    CU_ASSERT_STRING_EQUAL(text, "0.30000000000000004");
}

/* Short numbers are read without strtod(), but must get the same values. */
TEST("lists of numbers")
{
    static const char *const wrong[] = { "1  2", "1,2", "1.", "- 1", "1 x", "1 1e999" };
    g_autoptr(record) record = record_new();
    struct rng rng = rng_seeded(12);
    uint32_t count;
    for (uint32_t i = 0; i < 20000; i++) {
        const uint64_t whole = rng_next(&rng) >> rng_below(&rng, 64), part = rng_next(&rng) >> rng_below(&rng, 64);
        g_autofree char *text =
            g_strdup_printf("%s%" G_GUINT64_FORMAT ".%" G_GUINT64_FORMAT " -0 7 1e-3", i & 1 ? "-" : "", whole, part);
        record_add_text(record, "p", (int32_t)i, "m", text);
        g_autofree double *value = MADE(record_row_list(record_row(record, i), &count));
        CU_ASSERT_EQUAL_FATAL(count, 4);
        CU_ASSERT_EQUAL(value[0], g_ascii_strtod(text, NULL));
        CU_ASSERT(value[1] == 0 && signbit(value[1]) && value[2] == 7 && value[3] == 1e-3);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        record_add_text(record, "q", (int32_t)i, "m", wrong[i]);
        CU_ASSERT_PTR_NULL(record_row_list(record_row(record, 20000 + (uint32_t)i), &count));
    }
}

TEST("hostile words round-trip")
{
    static const char *const words[] = { "a,b",
                                         "\"",
                                         "\"\"",
                                         "# x: y",
                                         "line\nbreak",
                                         "tab\tand\rreturn",
                                         "  padded  ",
                                         "<script>alert(1)</script>",
                                         "\xff\xfe broken utf-8",
                                         "\xc3\xa9\xe2\x82\xac",
                                         "\\u0041 \\",
                                         "nan",
                                         "null",
                                         "-1.5",
                                         "",
                                         "all",
                                         "a;b|c",
                                         "\x7f",
                                         "0x10",
                                         "1e999x" };
    g_autoptr(record) record = record_new();
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        char key[16];
        g_snprintf(key, sizeof key, "key %zu", i);
        record_set(record, key, "%s", words[i]);
        record_add_text(record, "phase, \"quoted\"", (int32_t)i, "#metric", words[i]);
    }
    CU_ASSERT_STRING_EQUAL(record_get(record, "key 4"), "line break");
    CU_ASSERT_STRING_EQUAL(record_row_text(record_row(record, 14)), "-");
    CU_ASSERT_EQUAL(record_row(record, 13)->value, -1.5);
    assert_round_trips(record);
}

TEST("variants that other tools write")
{
    struct record *record = parsed("# kind:measure\r\n#empty:\r\n\r\nphase,rank,metric,value,unit\r\n"
                                   "\"put\", all ,time_us,1.50,us\r\n\r\nput,0,bottleneck,cpu,");
    CU_ASSERT_STRING_EQUAL(record_get(record, "kind"), "measure");
    CU_ASSERT_STRING_EQUAL(record_get(record, "empty"), "");
    CU_ASSERT_EQUAL_FATAL(record_row_count(record), 2);
    CU_ASSERT_STRING_EQUAL(record_row_text(record_row(record, 0)), "1.5");
    CU_ASSERT_EQUAL(record_row(record, 0)->value, 1.5);
    CU_ASSERT_STRING_EQUAL(record_row_text(record_row(record, 1)), "cpu");
    record_free(record);
    record = parsed(" {\"rows\":[{\"unit\":\"\",\"value\":-1e2,\"metric\":\"m\",\"rank\":3,\"phase\":"
                    "\"\\u00e9\\ud83d\\ude00\"}],\"header\":{\"a\":\"b\"}} \n");
    CU_ASSERT_STRING_EQUAL(record_row(record, 0)->phase, "\xc3\xa9\xf0\x9f\x98\x80");
    CU_ASSERT_EQUAL(record_row(record, 0)->value, -100);
    record_free(record);
}

static const struct bad {
    const char *text, *message;
} bad_texts[] = {
    { "", "test:1: expected 'phase,rank,metric,value,unit', found the end of the file" },
    { "# a: b\n", "test:2: expected 'phase,rank,metric,value,unit', found the end of the file" },
    { "# a b\n", "test:1: expected '# key: value', found '# a b'" },
    { "# a: b\n# a: c\n", "test:2: key 'a' stands twice" },
    { "#: b\n", "test:1: expected a key before ':', found ''" },
    { "time,us\n", "test:1: expected 'phase,rank,metric,value,unit', found 'time,us'" },
    { "\xff", "test:1: expected UTF-8 text, found byte 0xff" },
    { "phase,rank,metric,value,unit\nd,0,m,1\n", "test:2: expected 5 fields (phase,rank,metric,value,unit), found 4" },
    { "phase,rank,metric,value,unit\nd,0,m,1,us,x\n",
      "test:2: expected 5 fields (phase,rank,metric,value,unit), found more" },
    { "phase,rank,metric,value,unit\nd,0,m,1,us\nd,-1,m,1,us\n",
      "test:3: rank: expected a number or 'all', found '-1'" },
    { "phase,rank,metric,value,unit\nd,2147483648,m,1,us\n",
      "test:2: rank: expected a number or 'all', found '2147483648'" },
    { "phase,rank,metric,value,unit\n,0,m,1,us\n", "test:2: phase: expected a word, found nothing" },
    { "phase,rank,metric,value,unit\nd,0,m,,us\n", "test:2: value: expected a word, found nothing" },
    { "phase,rank,metric,value,unit\nd,0,\001\t,1,us\n", "test:2: metric: expected a word, found nothing" },
    { "phase,rank,metric,value,unit\nd,0,m,fast,us\n", "test:2: value: expected a finite number, found 'fast'" },
    { "phase,rank,metric,value,unit\nd,0,m,1e999,\n",
      "test:2: value: expected a finite number or a word, found '1e999'" },
    { "phase,rank,metric,value,unit\nd,0,m,1e999\002,\n", /* would be written as a number that is refused */
      "test:2: value: expected a finite number or a word, found '1e999\002'" },
    { "phase,rank,metric,value,unit\nd,0,time_us_max,1,ms\n", "test:2: unit: expected us of time_us_max, found 'ms'" },
    { "phase,rank,metric,value,unit\nd,0,time_us,-1,us\n", "test:2: value: expected a time from 0, found '-1'" },
    { "phase,rank,metric,value,unit\nd,0,m,0x10,us\n", "test:2: value: expected a finite number, found '0x10'" },
    { "phase,rank,metric,value,unit\nd,0,m,\"1,us\n",
      "test:2: expected the closing '\"' of a field, found the end of the file" },
    { "{", "test:1: expected JSON: string or '}' expected near end of file" },
    { "{}", "test: expected an object of 'header' and an array 'rows'" },
    { "{\"header\":{},\n\"rows\":[]}x", "test:2: expected JSON: end of file expected near 'x'" },
    { "{\"header\":{},\"rows\":[],}", "test:1: expected JSON: string or '}' expected near '}'" },
    { "{\"header\":{},\"header\":{}}", "test:1: expected JSON: duplicate object key near '\"header\"'" },
    { "{\"header\":{},\"rows\":{}}", "test: expected an object of 'header' and an array 'rows'" },
    { "{\"header\":[],\"rows\":[]}", "test: header: expected an object" },
    { "{\"header\":{\"a\":1},\"rows\":[]}", "test: header: a: expected a string" },
    { "{\"header\":{\" a\":\"\"},\"rows\":[]}", "test: header: expected a key, found ' a'" },
    { "{\"header\":{\"a\":\"\\ud800\"}}", "test:1: expected JSON: invalid Unicode '\\uD800' near '\"\\ud800\"'" },
    { "{\"header\":{\"a\":\"\\u0000\"}}",
      "test:1: expected JSON: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"\\u0000\"'" },
    { "{\"header\":{},\"rows\":[{\"phase\":\"d\"}]}",
      "test: rows[0]: expected an object of phase,rank,metric,value,unit" },
    { "{\"header\":{},\"rows\":[1]}", "test: rows[0]: expected an object of phase,rank,metric,value,unit" },
    { "{\"header\":{},\"rows\":[{\"phase\":null,\"rank\":1,\"metric\":\"m\",\"value\":1,\"unit\":\"\"}]}",
      "test: rows[0]: phase: expected a word, found another type" },
    { "{\"header\":{},\"rows\":[{\"phase\":\"d\",\"rank\":1,\"metric\":\"m\",\"valu\":1,\"unit\":\"\"}]}",
      "test: rows[0]: value: expected a number or word, found nothing" },
    { "{\"header\":{},\"rows\":[{\"phase\":\"d\",\"rank\":1.5,\"metric\":\"m\",\"value\":1,\"unit\":\"\"}]}",
      "test: rows[0]: rank: expected a number or 'all', found '1.5'" },
    { "{\"header\":{},\"rows\":[{\"value\":01}]}", "test:1: expected JSON: invalid token near '0'" },
    { "{\"header\":{},\"rows\":[{\"value\":1e400}]}", "test:1: expected JSON: real number overflow near '1e400'" },
};

TEST("refusals name line and field")
{
    for (size_t i = 0; i < G_N_ELEMENTS(bad_texts); i++) {
        g_autoptr(GError) error = NULL;
        CU_ASSERT_PTR_NULL(record_parse("test", bad_texts[i].text, strlen(bad_texts[i].text), &error));
        CU_ASSERT(error_is(&error, bad_texts[i].message));
    }
    g_autoptr(GError) error = NULL;
    CU_ASSERT_PTR_NULL(record_parse("test", "# a: \0b\n", 8, &error));
    CU_ASSERT(error_is(&error, "test:1: expected UTF-8 text, found byte 0x00"));
    CU_ASSERT_PTR_NULL(record_read("/nonexistent/record.csv", &error));
    CU_ASSERT(error_is(&error, "/nonexistent/record.csv: cannot open: No such file or directory"));
}

/* JSON that nests without end is refused, not followed. */
TEST("endless nesting")
{
    g_autoptr(GError) error = NULL;
    g_autofree char *deep = g_strnfill(1000000, '[');
    deep[0] = '{';
    memcpy(deep, "{\"rows\":", 8);
    CU_ASSERT_PTR_NULL(record_parse("test", deep, strlen(deep), &error));
    CU_ASSERT_TRUE(g_str_has_prefix(error->message, "test:1: expected JSON: maximum parsing depth reached"));
}

/* Whatever is accepted must survive a round trip.  Nothing may crash; the sanitizers notice bad accesses. */
static void survive(const char *text, size_t size_bytes)
{
    g_autofree char *copy = g_malloc(size_bytes + 1); /* a block of its own, so that sanitizers notice reads beyond its
                                                       * end */
    memcpy(copy, text, size_bytes);
    copy[size_bytes] = '\0';
    g_autoptr(GError) error = NULL;
    g_autoptr(record) record = record_parse("test", copy, size_bytes, &error);
    CU_ASSERT_TRUE((record == NULL) == (error != NULL));
    if (record) assert_round_trips(record);
}

TEST("truncation and bit flips")
{
    static const char *const texts[] = {
        "# kind: simulate\n# seed: "
        "1\nphase,rank,metric,value,unit\ndispatch,all,time_us,1.5e1,us\nd,3,b,\"a,\"\"b\",\n",
        "{\"header\": {\"k\": \"v\\u00e9\\n\"}, \"rows\": [{\"phase\": \"d\", \"rank\": \"all\", \"metric\": \"m\", "
        "\"value\": -1.5e1, \"unit\": \"us\"}]}\n"
    };
    for (int t = 0; t < 2; t++) {
        const size_t size = strlen(texts[t]);
        for (size_t cut = 0; cut <= size; cut++) survive(texts[t], cut);
        g_autofree char *copy = g_strdup(texts[t]);
        for (size_t i = 0; i < size; i++) {
            for (int bit = 0; bit < 8; bit++) {
                copy[i] = (char)(texts[t][i] ^ (1 << bit));
                survive(copy, size);
            }
            copy[i] = texts[t][i];
        }
    }
}

TEST("failed writes leave nothing")
{
    struct record *record = record_new();
    record_add(record, "d", 0, "m", 1, "us");
    g_autofree char *missing = in_folder("no/such/place.csv"), *kept = in_folder("kept.csv");
    GError *error = NULL;
    CU_ASSERT_FALSE(record_write(record, missing, RECORD_CSV, &error));
    CU_ASSERT_TRUE(g_str_has_prefix(error->message, missing) && strstr(error->message, "No such file"));
    g_clear_error(&error);
    CU_ASSERT_FALSE(record_write(record, temporary_path(""), RECORD_CSV, &error));
    CU_ASSERT(error_holds(&error, "Is a directory"));
    CU_ASSERT_FALSE(record_write(record, "/dev/full", RECORD_CSV, &error));
    CU_ASSERT(error_is(&error, "/dev/full: cannot write: No space left on device"));
    CU_ASSERT_TRUE(record_write(record, "/dev/null", RECORD_CSV, NULL));
    struct stat status;
    CU_ASSERT_TRUE(stat("/dev/null", &status) == 0 && S_ISCHR(status.st_mode));
    /* A symbolic link stays, its target is replaced, and no other file is left in the folder. */
    g_autofree char *link = in_folder("link.csv");
    CU_ASSERT_TRUE(g_file_set_contents(kept, "old", -1, NULL) && symlink("kept.csv", link) == 0);
    CU_ASSERT_TRUE(record_write(record, link, RECORD_CSV, NULL));
    CU_ASSERT_TRUE(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
    record_free(record);
    record = record_read(kept, NULL);
    CU_ASSERT_PTR_NOT_NULL(record);
    record_free(record);
    g_unlink(kept);
    g_unlink(link);
    g_autoptr(GDir) entries = g_dir_open(temporary_path(""), 0, NULL);
    CU_ASSERT_PTR_NULL(g_dir_read_name(entries));
}
