/* Reading ahead of a scan.
 *
 * SQLite reads page by page, which costs a turn to the disk for each. After a few pages in the order
 * of the file, a window of those that follow is read at once, larger each time.
 *
 * What was read ahead stays valid for as long as SQLite's locks keep the file as it is: until the
 * connection takes or gives up any lock, on the file or, with a write-ahead log, in shared memory.
 * Each read transaction begins with one. During the transaction of a reader, a checkpoint writes only
 * pages that this reader takes from the log instead.
 */
#include "vfs.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* Reads in the order of the file before the first window. */
#define STREAK_MIN 3
/* A read that skips no more than this many bytes still belongs to a scan: pages of the tree's inner
 * nodes lie between those of its leaves. */
#define SKIP_MAX ((sqlite3_int64)64 << 10)
#define WINDOW_MIN ((size_t)32 << 10)

void ahead_forget(Ahead *ahead) { ahead->length = 0; }

bool ahead_read(Ahead *ahead, dio_file *file, void *page, int count, sqlite3_int64 offset) {
    bool follows = offset >= ahead->next && offset - ahead->next <= SKIP_MAX;
    ahead->next = offset + count;
    if (ahead->length > 0 && offset >= ahead->offset &&
        offset + count <= ahead->offset + (sqlite3_int64)ahead->length) {
        memcpy(page, ahead->memory + (offset - ahead->offset), (size_t)count);
        return true;
    }
    if (!follows) {
        ahead->streak = 0;
        ahead->window = 0;
        return false;
    }
    if (++ahead->streak < STREAK_MIN) return false;
    if (!ahead->memory) ahead->memory = dio_alloc(AHEAD_BYTES_MAX);
    if (!ahead->memory || (size_t)count > WINDOW_MIN) {
        /* Such pages are windows themselves. */
        return false;
    }
    ahead->window = ahead->window == 0 ? WINDOW_MIN : ahead->window * 2;
    if (ahead->window > AHEAD_BYTES_MAX) ahead->window = AHEAD_BYTES_MAX;
    int64_t found = dio_pread(file, ahead->memory, ahead->window, (uint64_t)offset, NULL);
    ahead->offset = offset;
    ahead->length = found > 0 ? (size_t)found : 0;
    /* An error, and the end of the file, are for the read of the page itself to report. */
    if (found < count) return false;
    memcpy(page, ahead->memory, (size_t)count);
    return true;
}

void ahead_free(Ahead *ahead) {
    dio_free(ahead->memory);
    *ahead = (Ahead){0};
}
