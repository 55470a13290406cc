/* nsys.c - the SQLite export of Nsight Systems (`nsys export --type sqlite`): kernels with their names, copies, and
 * launches by correlation.  The file is opened only for reading.  Only tables are read, by their names, so no code
 * of the database (views, triggers) runs. */
#include "reports/import/profile.h"

#include <string.h>
#include "sim/error.h"

bool nsys_begins(const uint8_t *bytes, size_t size) { return size >= 16 && memcmp(bytes, "SQLite format 3", 16) == 0; }

#ifdef HAVE_SQLITE
#    include <sqlite3.h>

static bool refuse(GError **error, const char *path, const char *where, const char *found)
{
    return error_input(error, "%s: %s: expected an export of Nsight Systems, found %s", path, where, found);
}

static bool table_there(sqlite3 *database, const char *name)
{
    sqlite3_stmt *statement = NULL;
    bool there = sqlite3_prepare_v2(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", -1,
                                    &statement, NULL) == SQLITE_OK &&
                 sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC) == SQLITE_OK &&
                 sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return there;
}

static uint32_t column_count(sqlite3_stmt *row, int column)
{
    const sqlite3_int64 value = sqlite3_column_int64(row, column);
    return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* The row's correlation number, mixed with its process, because two processes may use equal numbers. */
static uint32_t correlation_of(sqlite3_stmt *row, int correlation, int process)
{
    const uint64_t mixed = (uint64_t)sqlite3_column_int64(row, process) / 0x1000000 * UINT64_C(0x9e3779b97f4a7c15);
    const uint32_t number = column_count(row, correlation) ^ (uint32_t)(mixed >> 32);
    return number ? number : 1;
}

static bool kernel_take(struct profile_builder *b, sqlite3_stmt *row)
{
    const char *name = (const char *)sqlite3_column_text(row, 4);
    const struct profile_kernel kernel = {
        .begin_ns = sqlite3_column_int64(row, 0),
        .end_ns = MAX(sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 0)),
        .launch_ns = PROFILE_NO_LAUNCH,
        .name = profile_builder_name(b, name ? name : "?"),
        .device = (uint16_t)column_count(row, 2),
        .stream = column_count(row, 3),
        .blocks = column_count(row, 5),
        .correlation = correlation_of(row, 6, 7),
        .kind = sqlite3_column_int(row, 8) ? PROFILE_COPY : PROFILE_KERNEL,
    };
    return profile_builder_kernel(b, &kernel);
}

static bool launch_take(struct profile_builder *b, sqlite3_stmt *row)
{
    return profile_builder_launch(b, correlation_of(row, 1, 2), sqlite3_column_int64(row, 0));
}

static bool gpu_take(struct profile_builder *b, sqlite3_stmt *row)
{
    struct profile *facts = profile_builder_facts(b);
    if (!facts->gpu) facts->gpu = g_strdup((const char *)sqlite3_column_text(row, 0));
    return true;
}

static const struct query {
    const char *table, *text;
    bool (*take)(struct profile_builder *b, sqlite3_stmt *row);
    bool needed;
} queries[] = {
    { "CUPTI_ACTIVITY_KIND_KERNEL",
      "SELECT k.start, k.\"end\", k.deviceId, k.streamId, s.value, k.gridX * k.gridY * k.gridZ, k.correlationId, "
      "k.globalPid, 0 FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName",
      kernel_take, true },
    { "CUPTI_ACTIVITY_KIND_MEMCPY",
      "SELECT start, \"end\", deviceId, streamId, 'memcpy', 0, correlationId, globalPid, 1 FROM "
      "CUPTI_ACTIVITY_KIND_MEMCPY",
      kernel_take, false },
    { "CUPTI_ACTIVITY_KIND_RUNTIME", "SELECT start, correlationId, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME",
      launch_take, false },
    { "TARGET_INFO_GPU", "SELECT name FROM TARGET_INFO_GPU", gpu_take, false },
};

static bool query_run(sqlite3 *database, const struct query *q, struct profile_builder *b, const char *path,
                      GError **error)
{
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(database, q->text, -1, &statement, NULL);
    bool room = true;
    if (status == SQLITE_OK)
        while (room && (status = sqlite3_step(statement)) == SQLITE_ROW) {
            room = q->take(b, statement);
            profile_builder_facts(b)->events++;
        }
    const bool good = room ? status == SQLITE_DONE || refuse(error, path, q->table, sqlite3_errmsg(database))
                           : refuse(error, path, q->table, "more than 2^26 rows");
    sqlite3_finalize(statement);
    return good;
}

GPtrArray *nsys_read(const char *path, GError **error)
{
    sqlite3 *database = NULL;
    struct profile_builder *b = profile_builder_new(path, "nsys");
    bool good = sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK ||
                refuse(error, path, "file", database ? sqlite3_errmsg(database) : "no memory");
    if (good) sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    for (size_t i = 0; good && i < G_N_ELEMENTS(queries); i++) {
        if (table_there(database, queries[i].table)) good = query_run(database, &queries[i], b, path, error);
        else if (queries[i].needed) good = refuse(error, path, queries[i].table, "no such table");
    }
    sqlite3_close(database);
    if (good) return profile_builder_end(b);
    profile_builder_free(b);
    return NULL;
}

#else

GPtrArray *nsys_read(const char *path, GError **error)
{
    return error_null(error, "%s: expected an eptwin that is built with libsqlite3 to read a SQLite database", path);
}

#endif
