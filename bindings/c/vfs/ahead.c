/* Reading ahead of a scan.
 *
 * SQLite reads page by page, which costs a turn to the disk for each. After a few pages in the order
 * of the file, a window of those that follow is read at once, larger each time.
 *
 * What was read ahead stays valid for as long as SQLite's locks keep the file as it is: until the
 * connection takes or gives up any lock, on the file or, with a write-ahead log, in shared memory.
 * Each read transaction begins with one, but for databases that are opened with nolock=1: of these
 * nothing is read ahead. During the transaction of a reader, a checkpoint writes only
 * pages that this reader takes from the log instead.
 */
#include "vfs.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* Reads in the order of the file before the first window. */
#define STREAK_MIN 3
/* A read that skips no more than so many pages still belongs to a scan: pages of the tree's inner
 * nodes lie between those of its leaves. */
#define SKIP_PAGES_MAX 4
#define WINDOW_MIN ((size_t)32 << 10)
/* Reads elsewhere, of inner nodes, that do not end a scan. */
#define ASIDES_MAX 8

void ahead_forget(Ahead *ahead) {
    ahead->length = 0;
    ahead->window = 0;
    ahead->streak = 0;
    ahead->asides = 0;
}

void ahead_forget_range(Ahead *ahead, int count, sqlite3_int64 offset) {
    if (offset < ahead->offset + (sqlite3_int64)ahead->length && ahead->offset < offset + count)
        ahead_forget(ahead);
}

/* Whether a read belongs to the scan. If it does not, the scan goes on for a few more of its kind. */
static bool follows(Ahead *ahead, int count, sqlite3_int64 offset) {
    sqlite3_int64 skipped = offset - ahead->next;
    if (skipped >= 0 && skipped <= SKIP_PAGES_MAX * (sqlite3_int64)count) {
        ahead->asides = 0;
        ahead->next = offset + count;
        return true;
    }
    if (ahead->window == 0 || ++ahead->asides > ASIDES_MAX) {
        ahead_forget(ahead);
        ahead->next = offset + count;
    }
    return false;
}

/* Decides how much is read ahead now, in bytes; 0 for nothing. A window follows on one that was
 * used, twice as large; one that was not used ends the scan. */
static size_t next_window(Ahead *ahead) {
    if (ahead->length > 0 && ahead->used * 2 < ahead->length) ahead_forget(ahead);
    if (++ahead->streak < STREAK_MIN) return 0;
    if (ahead->window == 0) return WINDOW_MIN;
    return ahead->window * 2 < AHEAD_BYTES_MAX ? ahead->window * 2 : AHEAD_BYTES_MAX;
}

bool ahead_read(Ahead *ahead, dio_file *file, void *page, int count, sqlite3_int64 offset) {
    bool belongs = follows(ahead, count, offset);
    if (ahead->length > 0 && offset >= ahead->offset &&
        offset + count <= ahead->offset + (sqlite3_int64)ahead->length) {
        memcpy(page, ahead->memory + (offset - ahead->offset), (size_t)count);
        ahead->used += (size_t)count;
        return true;
    }
    /* Larger pages are windows themselves. */
    size_t window = belongs && (size_t)count <= WINDOW_MIN / 2 ? next_window(ahead) : 0;
    if (window > 0 && !ahead->memory) ahead->memory = dio_alloc(AHEAD_BYTES_MAX);
    if (window == 0 || !ahead->memory) return false;
    int64_t found = dio_pread(file, ahead->memory, window, (uint64_t)offset, NULL);
    ahead->window = window;
    ahead->offset = offset;
    ahead->length = found > 0 ? (size_t)found : 0;
    ahead->used = (size_t)count;
    /* An error, and the end of the file, are for the read of the page itself to report. */
    if (found < count) return false;
    memcpy(page, ahead->memory, (size_t)count);
    return true;
}

void ahead_free(Ahead *ahead) {
    dio_free(ahead->memory);
    *ahead = (Ahead){0};
}
