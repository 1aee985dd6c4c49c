/* Which page a checkpoint of a write-ahead log will write last.
 *
 * SQLite heeds the result of each write of a checkpoint, but, if the checkpoint is a partial one, of
 * nothing that follows on the last: not of SQLITE_FCNTL_CKPT_DONE, nor of giving up the locks. So
 * pages may be gathered only while it is certain that another page will be written, whose write then
 * writes the gathered ones and reports their errors.
 *
 * SQLite writes in the order of the pages, each page once: those of which the latest frame of the
 * log lies behind what was written back before (nBackfill) and not behind the oldest snapshot that
 * is read (mxSafeFrame, which it stores as nBackfillAttempted), and that the database still has. All
 * of that is in the index of the log, in shared memory, whose format is documented
 * (https://sqlite.org/walformat.html) and written below. What is not certain is taken for the end,
 * and pages from there on are written one by one:
 *
 * 1. If a transaction was committed between the moment that this connection took the lock of the
 *    checkpoint and the one that the checkpoint begins, the header that SQLite goes by may be
 *    neither. The last page is not known.
 * 2. Frames behind that header's may be added at any time. They are not looked at, as SQLite does not
 *    look at them.
 * 3. Nobody else writes back or begins the log anew while this connection has that lock.
 */
#include "vfs.h"

#include <stdint.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

/* Bytes of a region of the index, and page numbers in the first and in each later one. */
#define REGION_BYTES 32768
#define FIRST_NUMBERS 4062
#define REGION_NUMBERS 4096
/* Where the page numbers begin in the first region. */
#define FIRST_START 136
#define VERSION 3007000
/* Most pages that are looked for among the frames that are not written. */
#define TRIES_MAX 16

/* The header, of which the region begins with two copies, and what follows on them. */
typedef struct {
    uint32_t version, unused, change;
    uint8_t is_initialized, is_big_endian;
    uint16_t page_bytes;
    uint32_t frames, pages; /* of the log, and of the database */
    uint32_t checksum[2], salt[2], own_checksum[2];
} Header;

typedef struct {
    Header headers[2];
    uint32_t written_back; /* nBackfill */
    uint32_t marks[5];
    uint8_t locks[8];
    uint32_t attempted; /* nBackfillAttempted */
} Begin;

_Static_assert(sizeof(Header) == sizeof((Checkpoint){0}.header), "the header has 48 bytes");
_Static_assert(offsetof(Begin, attempted) == 128, "as the format says");

static const void *region(sqlite3_file *real, int number) {
    void volatile *memory = NULL;
    int result = real->pMethods->xShmMap(real, number, REGION_BYTES, 0, &memory);
    return result == SQLITE_OK ? (const void *)memory : NULL;
}

/* Copies the begin of the index. Returns false if there is none, or somebody changes it. */
static bool read_begin(sqlite3_file *real, Begin *begin) {
    const void *memory = region(real, 0);
    if (!memory) return false;
    *begin = *(const volatile Begin *)memory;
    const Header *header = &begin->headers[0];
    return memcmp(header, &begin->headers[1], sizeof *header) == 0 && header->is_initialized &&
           header->version == VERSION;
}

/* The page in a frame, which is counted from 1; 0 if it is not known. */
static uint32_t page_of(sqlite3_file *real, uint32_t frame) {
    uint32_t at = frame - 1;
    bool is_first = at < FIRST_NUMBERS;
    int number = is_first ? 0 : (int)((at - FIRST_NUMBERS) / REGION_NUMBERS) + 1;
    const char *memory = region(real, number);
    if (!memory) return 0;
    const char *numbers = is_first ? memory + FIRST_START : memory;
    uint32_t index = is_first ? at : (at - FIRST_NUMBERS) % REGION_NUMBERS;
    return ((const volatile uint32_t *)numbers)[index];
}

/* The largest page below `bound` in the frames behind `from` up to `to`; 0 if there is none. */
static uint32_t largest(sqlite3_file *real, uint32_t from, uint32_t to, uint32_t bound) {
    uint32_t found = 0;
    for (uint32_t frame = from + 1; frame <= to; frame++) {
        uint32_t page = page_of(real, frame);
        if (page == 0) return 0;
        if (page < bound && page > found) found = page;
    }
    return found;
}

/* Whether a page is in one of the frames behind `from` up to `to`, or that is not known. */
static bool has(sqlite3_file *real, uint32_t from, uint32_t to, uint32_t page) {
    for (uint32_t frame = from + 1; frame <= to; frame++) {
        uint32_t there = page_of(real, frame);
        if (there == page || there == 0) return true;
    }
    return false;
}

void checkpoint_locked(Checkpoint *checkpoint, sqlite3_file *real) {
    Begin begin;
    checkpoint->last_page = 0;
    checkpoint->is_known = read_begin(real, &begin);
    memcpy(checkpoint->header, &begin.headers[0], sizeof checkpoint->header);
}

void checkpoint_begins(Checkpoint *checkpoint, sqlite3_file *real) {
    Begin begin;
    checkpoint->last_page = 0;
    if (!checkpoint->is_known || !read_begin(real, &begin)) return;
    if (memcmp(checkpoint->header, &begin.headers[0], sizeof checkpoint->header) != 0) return;
    const Header *header = &begin.headers[0];
    uint32_t from = begin.written_back, safe = begin.attempted, bound = header->pages + 1;
    if (from >= safe || safe > header->frames) return;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        uint32_t page = largest(real, from, safe, bound);
        if (page == 0) return;
        if (!has(real, safe, header->frames, page)) {
            checkpoint->last_page = page;
            return;
        }
        bound = page;
    }
}

void checkpoint_ended(Checkpoint *checkpoint) { *checkpoint = (Checkpoint){0}; }

bool checkpoint_goes_on(const Checkpoint *checkpoint, int count, sqlite3_int64 offset) {
    return offset / count + 1 < (sqlite3_int64)checkpoint->last_page;
}
