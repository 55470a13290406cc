/* test_record_forms.c - records in forms that other programs read: JSON by its schema (reports/record.schema.json),
 * CollectiveX's document, OpenMetrics text.
 *
 * The validator in this file knows only the words of JSON Schema that our schema uses.  The test fails if the schema
 * uses another word. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "reports/record_forms.h"
#include "reports/import/import.h"
#include "reports/record.h"
#include "tests/support_trace.h"
#include "tests/unit.h"

/* ---- a validator ---- */

static bool type_fits(const json_t *value, const char *type)
{
    return strcmp(type, "object") == 0    ? json_is_object(value)
           : strcmp(type, "array") == 0   ? json_is_array(value)
           : strcmp(type, "string") == 0  ? json_is_string(value)
           : strcmp(type, "integer") == 0 ? json_is_integer(value)
           : strcmp(type, "number") == 0  ? json_is_number(value)
           : strcmp(type, "null") == 0    ? json_is_null(value)
                                          : false;
}

static bool fits(const json_t *value, json_t *schema);

/* Whether value fits one of the list's members. */
static bool any_fits(const json_t *value, const json_t *list, const char *word)
{
    bool good = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *member = json_array_get(list, i);
        good = good || (strcmp(word, "type") == 0   ? type_fits(value, json_string_value(member))
                        : strcmp(word, "enum") == 0 ? json_equal((json_t *)value, member)
                                                    : fits(value, member));
    }
    return good;
}

static bool members_fit(const json_t *value, json_t *schema)
{
    json_t *known = json_object_get(schema, "properties"), *others = json_object_get(schema, "additionalProperties"),
           *member;
    const char *key;
    bool good = true;
    json_object_foreach((json_t *)value, key, member)
    {
        json_t *own = json_object_get(known, key);
        if (own) good = good && fits(member, own);
        else if (others) good = good && !json_is_false(others) && (!json_is_object(others) || fits(member, others));
    }
    return good;
}

static bool fits(const json_t *value, json_t *schema)
{
    const char *word;
    json_t *says;
    bool good = true;
    json_object_foreach(schema, word, says)
    {
        if (word[0] == '$' || !strcmp(word, "title") || !strcmp(word, "description") || !strcmp(word, "properties") ||
            !strcmp(word, "additionalProperties"))
            continue;
        if (!strcmp(word, "type") && json_is_string(says)) good = good && type_fits(value, json_string_value(says));
        else if (!strcmp(word, "type") || !strcmp(word, "enum") || !strcmp(word, "anyOf"))
            good = good && any_fits(value, says, word);
        else if (!strcmp(word, "required"))
            for (size_t i = 0; i < json_array_size(says); i++)
                good = good && json_object_get(value, json_string_value(json_array_get(says, i)));
        else if (!strcmp(word, "items"))
            for (size_t i = 0; i < json_array_size(value); i++) good = good && fits(json_array_get(value, i), says);
        else if (!strcmp(word, "minimum"))
            good = good && (!json_is_number(value) || json_number_value(value) >= json_number_value(says));
        else if (!strcmp(word, "minLength"))
            good = good && (!json_is_string(value) || json_string_length(value) >= (size_t)json_integer_value(says));
        else CU_FAIL_FATAL("a word of JSON Schema that this validator does not know");
    }
    return good && (!json_is_object(value) || members_fit(value, schema));
}

/* ---- records ---- */

static struct record *record_make(const char *kind)
{
    struct record *record = record_new();
    record_set(record, "kind", "%s", kind);
    record_set(record, "version", "1.0");
    record_set(record, "cluster", "h800-cx7");
    record_set(record, "kernel", "normal");
    record_set(record, "num-ranks", "16");
    record_set(record, "ranks-per-node", "8");
    record_set(record, "num-tokens", "4096");
    record_set(record, "hidden", "7168");
    record_set(record, "num-topk", "8");
    record_set(record, "num-experts", "256");
    record_set(record, "dtype", "fp8");
    static const struct {
        const char *phase;
        double mean, most;
    } phases[] = { { "layout", 10, 12 },
                   { "notify", 90, 100 },
                   { "dispatch", 880, 900 },
                   { "cached_notify_combine", 40, 50 },
                   { "combine", 1800, 1900 } };
    for (size_t p = 0; p < G_N_ELEMENTS(phases); p++) {
        record_add(record, phases[p].phase, RECORD_ALL, "time_us", phases[p].mean, "us");
        record_add(record, phases[p].phase, RECORD_ALL, "time_us_max", phases[p].most, "us");
        record_add(record, phases[p].phase, 3, "time_us", phases[p].most, "us");
    }
    record_add(record, "dispatch", 0, "logical_rdma_gbs", 40, "GB/s");
    record_add(record, "dispatch", 0, "error_us", NAN, "us");
    record_add_text(record, "dispatch", RECORD_ALL, "bottleneck", "nic_tx");
    record_add_list(record, "dispatch", 1, "waits_us", (const double[]){ 0, 2.5 }, 2);
    return record;
}

static json_t *json_of(const struct record *record)
{
    const char *path = temporary_path("record");
    CU_ASSERT_FATAL(record_write(record, path, RECORD_JSON, NULL));
    json_t *root = MADE(json_load_file(path, JSON_REJECT_DUPLICATES, NULL));
    return root;
}

static json_t *schema_load(void)
{
    g_autofree char *path = g_strdup_printf("%s/reports/record.schema.json", getenv("SOURCE") ? getenv("SOURCE") : ".");
    json_t *schema = MADE(json_load_file(path, JSON_REJECT_DUPLICATES, NULL));
    return schema;
}

TEST("JSON follows its schema")
{
    static const char *const kinds[] = { "simulate", "replay", "measure", "import" };
    json_t *schema = schema_load();
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
        g_autoptr(record) record = record_make(kinds[k]);
        json_t *root = json_of(record);
        CU_ASSERT_TRUE(fits(root, schema));
        json_decref(root);
    }
    json_decref(schema);
}

/* Texts that are no records must be refused by the schema and by the reader. */
TEST("the schema refuses")
{
    static const char *const bad[] = {
        "[]",
        "{\"header\": {\"kind\": \"simulate\", \"version\": \"1\"}}",
        "{\"header\": {\"kind\": \"guess\", \"version\": \"1\"}, \"rows\": []}",
        "{\"header\": {\"kind\": \"simulate\", \"version\": \"1\", \"x\": 3}, \"rows\": []}",
        "{\"header\": {\"kind\": \"simulate\", \"version\": \"1\"}, \"rows\": [{\"phase\": \"d\", \"rank\": -2, "
        "\"metric\": \"m\", \"value\": 1, \"unit\": \"us\"}]}",
        "{\"header\": {\"kind\": \"simulate\", \"version\": \"1\"}, \"rows\": [{\"phase\": \"\", \"rank\": 1, "
        "\"metric\": \"m\", \"value\": 1, \"unit\": \"us\"}]}",
        "{\"header\": {\"kind\": \"simulate\", \"version\": \"1\"}, \"rows\": [{\"phase\": \"d\", \"rank\": 1, "
        "\"metric\": \"m\", \"value\": true, \"unit\": \"us\"}]}",
        "{\"header\": {\"kind\": \"simulate\", \"version\": \"1\"}, \"rows\": [{\"phase\": \"d\", \"rank\": 1, "
        "\"metric\": \"m\", \"value\": 1, \"unit\": \"us\", \"more\": 1}]}",
    };
    json_t *schema = schema_load();
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        json_t *root = MADE(json_loads(bad[i], 0, NULL));
        CU_ASSERT_FALSE(fits(root, schema));
        json_decref(root);
    }
    json_decref(schema);
}

TEST("CollectiveX out and in")
{
    g_autoptr(record) record = record_make("replay");
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) text = MADE(collectivex_text(record, &error));
    json_t *root = MADE(json_loads(text->str, JSON_REJECT_DUPLICATES, NULL));
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "record_type")), "case-attempt");
    const json_t *row = json_array_get(json_object_get(json_object_get(root, "measurement"), "rows"), 0);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "tokens_per_rank")), 4096);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "global_tokens")), 65536);
    json_decref(root);
    struct import_log *log = MADE(import_log_parse("x.json", text->str, text->len, &error));
    CU_ASSERT_EQUAL_FATAL(log->rows->len, 2);
    const struct import_row *dispatch = g_ptr_array_index(log->rows, 0), *combine = g_ptr_array_index(log->rows, 1);
    CU_ASSERT_EQUAL(dispatch->number[IMPORT_US], 1012); /* layout, notify and dispatch of the slowest rank */
    CU_ASSERT_EQUAL(combine->number[IMPORT_US], 1950);
    CU_ASSERT_STRING_EQUAL(dispatch->cell[IMPORT_KERNEL], "normal");
    CU_ASSERT_STRING_EQUAL(dispatch->cell[IMPORT_NUM_RANKS], "16");
    CU_ASSERT_STRING_EQUAL(dispatch->cell[IMPORT_DTYPE], "fp8");
    import_log_free(log);
    record_set(record, "num-tokens", "?");
    g_autoptr(GString) none = collectivex_text(record, &error);
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT_PTR_NOT_NULL(error);
}

/* A prediction says that it is not a measurement of a machine.  A loop has no times of its components, but a period and
 * floors. */
TEST("CollectiveX says what it is")
{
    g_autoptr(record) record = record_make("simulate");
    g_autoptr(GString) text = collectivex_text(record, NULL);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text->str, "\"dispatch\": {\"availability\": \"derived\", \"origin\": \"eptwin-simulate\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text->str, "\"pair_period\": {\"availability\": \"unavailable\""));
    record_set(record, "launch", "loop");
    g_autoptr(GString) loop = collectivex_text(record, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(loop->str, "\"components\": {\"dispatch\": {\"availability\": \"unavailable\""));
}

TEST("OpenMetrics")
{
    g_autoptr(record) record = record_make("replay");
    g_autoptr(record) predicted = record_make("simulate");
    record_set(record, "fabric", "a\"b\\c");
    g_autoptr(GString) text = open_metrics_text(record, predicted);
    CU_ASSERT_PTR_NOT_NULL(strstr(
        text->str, "eptwin_run_info{kind=\"replay\",version=\"1.0\",cluster=\"h800-cx7\",fabric=\"a\\\"b\\\\c\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text->str, "# TYPE eptwin_time_seconds gauge\n# UNIT eptwin_time_seconds seconds\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text->str, "eptwin_time_max_seconds{phase=\"combine\",rank=\"all\"} 0.0019"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text->str, "eptwin_logical_rdma_bytes_per_second{phase=\"dispatch\",rank=\"0\"} 40000000000\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text->str, "eptwin_wait_seconds{phase=\"dispatch\",rank=\"1\",for_rank=\"1\"} 2.5e-06\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text->str, "eptwin_prediction_error_ratio{phase=\"dispatch\",rank=\"all\"} 0\n"));
    CU_ASSERT_PTR_NULL(strstr(text->str, "eptwin_error"));
    CU_ASSERT_TRUE(g_str_has_suffix(text->str, "\n# EOF\n"));
    /* All samples of a family must stand together, after the family's TYPE line. */
    g_auto(GStrv) line = g_strsplit(text->str, "\n", -1);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (char **l = line; *l; l++)
        if (g_str_has_prefix(*l, "# TYPE ")) CU_ASSERT_TRUE(g_hash_table_add(seen, g_strdup(*l)));
}
