/* test_progress.c - the text of a progress bar, at its ends and in between.  Redirected standard error must stay empty.
 * A terminal (here a pseudo-terminal) must show the bar and then erase it. */
#include "sim/progress.h"
#include "tests/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *text_of(uint64_t done, uint64_t total, double elapsed_s)
{
    static char text[200];
    progress_format(text, sizeof text, &(struct progress_state){ "cases", done, total, elapsed_s });
    return text;
}

TEST("text")
{
    CU_ASSERT_STRING_EQUAL(text_of(0, 240, 0), "cases [..............................]   0 %  0/240  0.0/s  ? left");
    CU_ASSERT_STRING_EQUAL(text_of(120, 240, 15),
                           "cases [###############...............]  50 %  120/240  8.0/s  15 s left");
    CU_ASSERT_STRING_EQUAL(text_of(239, 240, 0.5),
                           "cases [#############################.]  99 %  239/240  478/s  0 s left");
    CU_ASSERT_STRING_EQUAL(text_of(240, 240, 30),
                           "cases [##############################] 100 %  240/240  8.0/s  0 s left");
    CU_ASSERT_STRING_EQUAL(text_of(1, 240, 10),
                           "cases [..............................]   0 %  1/240  0.1/s  40 min left");
    CU_ASSERT_STRING_EQUAL(text_of(1, 24, 3600),
                           "cases [#.............................]   4 %  1/24  0.0/s  23.0 h left");
    CU_ASSERT_STRING_EQUAL(text_of(5, 4, 1), "cases [##############################] 100 %  5/5  5.0/s  0 s left");
    CU_ASSERT_STRING_EQUAL(text_of(0, 0, 1), "cases [##############################] 100 %  0/0  0.0/s  ? left");
}

TEST("long labels are cut")
{
    char text[12];
    progress_format(text, sizeof text, &(struct progress_state){ "a long label of a bar", 1, 2, 1 });
    CU_ASSERT_STRING_EQUAL(text, "a long labe");
}

/* Runs a bar with fd as standard error. */
static bool bar_shown_at(int fd)
{
    const int saved = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    struct progress *const progress = progress_new("bar", 2);
    const bool shown = progress != NULL;
    progress_advance(progress, 1);
    progress_free(progress);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    return shown;
}

TEST("redirected stays empty")
{
    FILE *const file = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_FALSE(bar_shown_at(fileno(file)));
    CU_ASSERT_EQUAL(lseek(fileno(file), 0, SEEK_END), 0);
    fclose(file);
}

TEST("terminal sees it")
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    char text[1000] = "";
    CU_ASSERT_FATAL(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const int line = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    CU_ASSERT_FATAL(line >= 0);
    CU_ASSERT(bar_shown_at(line));
    for (size_t size = 0; !strstr(text, "\033[K\r\033[K");) { /* until the bar has been drawn and erased */
        struct pollfd readable = { .fd = terminal, .events = POLLIN };
        CU_ASSERT_EQUAL_FATAL(poll(&readable, 1, 20000), 1);
        const ssize_t more = read(terminal, text + size, sizeof text - 1 - size);
        CU_ASSERT_FATAL(more > 0);
        size += (size_t)more;
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\rbar [###############...............]  50 %  1/2"));
    close(line);
    close(terminal);
}
