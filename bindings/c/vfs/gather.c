/* Pages on their way to the database.
 *
 * SQLite writes one page after the other, and would wait for the disk each time. As the page cache
 * does, so this takes a copy and returns; unlike it, it writes everything, many requests in flight,
 * before SQLite syncs the file or gives up a lock, or when a megabyte has gathered. So a write may
 * fail after SQLite was told that it had succeeded. Pages are gathered only where a call follows
 * whose error SQLite heeds: see may_gather() in dio_vfs.c.
 *
 * Space for pages beyond the end of the file is allocated before they are taken, so the call that
 * needs it reports a full disk. Pages in holes get theirs when they are written.
 */
#include "vfs.h"

#include <pthread.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

#define DEPTH 64

static pthread_key_t queue_key;
static pthread_once_t queue_once = PTHREAD_ONCE_INIT;
static bool has_queue_key;

static void free_queue(void *queue) { dio_queue_free(queue, NULL); }

static void make_queue_key(void) {
    has_queue_key = pthread_key_create(&queue_key, free_queue) == 0;
}

/* The queue of this thread, or NULL if there can be none. */
static dio_queue *thread_queue(void) {
    pthread_once(&queue_once, make_queue_key);
    if (!has_queue_key) return NULL;
    dio_queue *queue = pthread_getspecific(queue_key);
    if (!queue) {
        queue = dio_queue_new(DEPTH, NULL);
        if (queue && pthread_setspecific(queue_key, queue) != 0) {
            dio_queue_free(queue, NULL);
            queue = NULL;
        }
    }
    return queue;
}

bool gather(Gathered *gathered, const void *page, int count, sqlite3_int64 offset) {
    size_t length = (size_t)count;
    for (int i = 0; i < gathered->count; i++) {
        Run *run = &gathered->runs[i];
        if (offset >= run->offset && offset + count <= run->offset + (sqlite3_int64)run->length) {
            memcpy(gathered->memory + run->start + (offset - run->offset), page, length);
            return true;
        }
        if (offset < run->offset + (sqlite3_int64)run->length && run->offset < offset + count)
            return false;
    }
    if (!gathered->memory) gathered->memory = dio_alloc(GATHERED_BYTES_MAX);
    if (!gathered->memory || length > GATHERED_BYTES_MAX - gathered->used) return false;
    Run *last = gathered->count > 0 ? &gathered->runs[gathered->count - 1] : NULL;
    if (last && last->offset + (sqlite3_int64)last->length == offset) {
        last->length += length;
    } else if (gathered->count < RUNS_MAX) {
        gathered->runs[gathered->count++] = (Run){offset, gathered->used, length};
    } else {
        return false;
    }
    memcpy(gathered->memory + gathered->used, page, length);
    gathered->used += length;
    return true;
}

bool gathered_read(const Gathered *gathered, void *page, int count, sqlite3_int64 offset,
                   bool *overlaps) {
    *overlaps = false;
    for (int i = 0; i < gathered->count; i++) {
        const Run *run = &gathered->runs[i];
        sqlite3_int64 end = run->offset + (sqlite3_int64)run->length;
        if (offset >= run->offset && offset + count <= end) {
            memcpy(page, gathered->memory + run->start + (offset - run->offset), (size_t)count);
            return true;
        }
        *overlaps |= offset < end && run->offset < offset + count;
    }
    return false;
}

/* Fetches completions until the queue holds at most `rest` requests. Returns the first error. */
static dio_error *finish(dio_queue *queue, int in_flight, int rest, int *left) {
    dio_error *first = NULL;
    while (in_flight > rest) {
        dio_completion done[DEPTH];
        int count = dio_queue_wait(queue, (uint32_t)(in_flight - rest), done, DEPTH,
                                   first ? NULL : &first);
        if (count < 0) break;
        for (int i = 0; i < count; i++) {
            if (done[i].error && !first) first = done[i].error;
            else dio_error_free(done[i].error);
        }
        in_flight -= count;
    }
    *left = in_flight;
    return first;
}

/* Writes the runs through a queue. */
static dio_error *write_queued(Gathered *gathered, dio_file *file, dio_queue *queue) {
    dio_error *error = NULL;
    int in_flight = 0;
    for (int i = 0; i < gathered->count && !error; i++) {
        const Run *run = &gathered->runs[i];
        if (in_flight == DEPTH) error = finish(queue, in_flight, DEPTH - 1, &in_flight);
        if (!error &&
            dio_queue_write(queue, file, gathered->memory + run->start, run->length,
                            (uint64_t)run->offset, (uint64_t)i, &error) == 0)
            in_flight++;
    }
    dio_error *later = finish(queue, in_flight, 0, &in_flight);
    if (!error) return later;
    dio_error_free(later);
    return error;
}

int gathered_write(Gathered *gathered, SharedFile *shared) {
    if (gathered->count == 0) return SQLITE_OK;
    dio_error *error = NULL;
    dio_queue *queue = gathered->count > 1 ? thread_queue() : NULL;
    if (queue) {
        error = write_queued(gathered, shared->file, queue);
    } else {
        for (int i = 0; i < gathered->count && !error; i++) {
            const Run *run = &gathered->runs[i];
            dio_pwrite(shared->file, gathered->memory + run->start, run->length,
                       (uint64_t)run->offset, &error);
        }
    }
    gathered->count = 0;
    gathered->used = 0;
    if (!error) return SQLITE_OK;
    shared_broke(shared);
    return failed(SQLITE_IOERR_WRITE, error);
}

void gathered_free(Gathered *gathered) {
    dio_free(gathered->memory);
    *gathered = (Gathered){0};
}
